// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/cuda/cuda_error.h"

namespace commfuse {
namespace {

constexpr std::size_t kChunkWords = std::size_t{1} << 20;
constexpr std::size_t kWord = sizeof(std::uint32_t);

std::uint32_t word_at(std::size_t index, std::uint32_t seed) {
  return static_cast<std::uint32_t>(index) * 2654435761U + (seed + 1) * 40503U;
}

/// Calls action(first word, words) for one chunk after another.
template <class Action>
void for_chunks(std::size_t bytes, Action action) {
  const std::size_t words = bytes / kWord;
  for (std::size_t first = 0; first < words; first += kChunkWords) {
    action(first, std::min(kChunkWords, words - first));
  }
}

}  // namespace

void write_pattern(std::byte* memory, std::size_t bytes, std::uint32_t seed, cudaStream_t stream) {
  std::vector<std::uint32_t> chunk;
  for_chunks(bytes, [&](std::size_t first, std::size_t words) {
    chunk.resize(words);
    for (std::size_t i = 0; i < words; ++i) chunk[i] = word_at(first + i, seed);
    CFB_CUDA(cudaMemcpyAsync(memory + first * kWord, chunk.data(), words * kWord,
                             cudaMemcpyHostToDevice, stream));
    CFB_CUDA(cudaStreamSynchronize(stream));
  });
}

std::string first_wrong_word(const std::byte* memory, std::size_t bytes, std::uint32_t seed,
                             cudaStream_t stream) {
  std::vector<std::uint32_t> chunk;
  std::string wrong;
  for_chunks(bytes, [&](std::size_t first, std::size_t words) {
    if (!wrong.empty()) return;
    chunk.resize(words);
    CFB_CUDA(cudaMemcpyAsync(chunk.data(), memory + first * kWord, words * kWord,
                             cudaMemcpyDeviceToHost, stream));
    CFB_CUDA(cudaStreamSynchronize(stream));
    for (std::size_t i = 0; i < words && wrong.empty(); ++i) {
      const std::uint32_t right = word_at(first + i, seed);
      if (chunk[i] == right) continue;
      wrong = fmt::format("word {} is {:#x}, must be {:#x}", first + i, chunk[i], right);
    }
  });
  return wrong;
}

}  // namespace commfuse
