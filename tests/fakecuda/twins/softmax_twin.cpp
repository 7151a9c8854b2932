// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/twins/softmax_twin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harness/cuda/softmax_rows.h"
#include "tests/fakecuda/twins/elements.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

/// Visible columns of a part, from the begin of the row.
std::pair<std::int64_t, std::int64_t> visible(const ScorePart& part, std::int64_t row) {
  const std::int64_t begin = std::max<std::int64_t>(part.begin + row * part.begin_step, 0);
  const std::int64_t end = std::min<std::int64_t>(part.end + row * part.end_step, part.count);
  return {part.column + begin, part.column + std::max(begin, end)};
}

void softmax(const SoftmaxRows& all, std::int64_t offset, std::int64_t row) {
  const float* scores = all.scores + offset;
  float largest = -std::numeric_limits<float>::infinity();
  for (const ScorePart& part : all.parts) {
    const auto [begin, end] = visible(part, row);
    for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, scores[i]);
  }
  float sum = 0;
  for (const ScorePart& part : all.parts) {
    const auto [begin, end] = visible(part, row);
    for (std::int64_t i = begin; i < end; ++i) sum += std::exp(scores[i] - largest);
  }
  for (const ScorePart& part : all.parts) {
    const auto [begin, end] = visible(part, row);
    for (std::int64_t i = part.column; i < part.column + part.count; ++i) {
      const float value = begin <= i && i < end ? std::exp(scores[i] - largest) / sum : 0.0F;
      store(value, all.probabilities, offset + i, all.dtype);
    }
  }
}

}  // namespace

Work softmax_rows(const Launch& launch) {
  const auto all = argument<SoftmaxRows>(launch, 0);
  // A block has 256 threads, for its reductions are over 8 warps.
  if (launch.grid.x != static_cast<unsigned>(all.rows) ||
      launch.grid.y != static_cast<unsigned>(all.heads) || launch.block.x != 256) {
    throw Finding(
        Verdict::Kind::host_error,
        fmt::format("softmax_rows: a grid of {} x {} blocks of {} threads for {} rows and "
                    "{} heads",
                    launch.grid.x, launch.grid.y, launch.block.x, all.rows, all.heads));
  }
  Work work{.name = "softmax_rows", .reads = {}, .writes = {}, .run = {}};
  const std::int64_t size = bytes_of(all.dtype);
  auto* const probabilities = static_cast<std::byte*>(all.probabilities);
  for (std::int64_t i = 0; i < std::int64_t{all.rows} * all.heads; ++i) {
    for (const ScorePart& part : all.parts) {
      const auto [begin, end] = visible(part, i % all.rows);
      append(work.reads, all.scores + i * all.pitch + begin,
             (end - begin) * static_cast<std::int64_t>(sizeof(float)));
      append(work.writes, probabilities + (i * all.pitch + part.column) * size, part.count * size);
    }
  }
  work.duration_ns = duration_ns(work.reads, work.writes);
  work.run = [all] {
    for (std::int64_t i = 0; i < std::int64_t{all.rows} * all.heads; ++i) {
      softmax(all, i * all.pitch, i % all.rows);
    }
  };
  return work;
}

}  // namespace commfuse::fake
