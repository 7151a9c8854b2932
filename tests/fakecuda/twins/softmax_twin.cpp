// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/twins/softmax_twin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

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

/// Softmax weights by column, 0 where masked.
std::vector<float> weights_of(const SoftmaxRows& all, std::int64_t offset, std::int64_t row) {
  const float* scores = all.scores + offset;
  float largest = -std::numeric_limits<float>::infinity();
  for (const ScorePart& part : all.parts) {
    const auto [begin, end] = visible(part, row);
    for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, scores[i]);
  }
  std::vector<float> weights(static_cast<std::size_t>(all.pitch));
  float sum = 0;
  for (const ScorePart& part : all.parts) {
    const auto [begin, end] = visible(part, row);
    for (std::int64_t i = begin; i < end; ++i) {
      sum += weights[static_cast<std::size_t>(i)] = std::exp(scores[i] - largest);
    }
  }
  for (float& weight : weights) weight /= sum;
  return weights;
}

/// Columns of the parts.
void store_parts(const SoftmaxRows& all, const std::vector<float>& values, void* target,
                 std::int64_t offset) {
  for (const ScorePart& part : all.parts) {
    for (std::int64_t i = part.column; i < part.column + part.count; ++i) {
      store(values[static_cast<std::size_t>(i)], target, offset + i, all.dtype);
    }
  }
}

void softmax(const SoftmaxRows& all, std::int64_t offset, std::int64_t row) {
  store_parts(all, weights_of(all, offset, row), all.probabilities, offset);
}

void softmax_gradient(const SoftmaxGradientRows& all, std::int64_t offset, std::int64_t row) {
  const float* slopes = all.slopes + offset;
  const std::vector<float> weights = weights_of(all.softmax, offset, row);
  std::vector<float> results(weights.size());
  float along = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] != 0) along += weights[i] * slopes[i];
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] != 0) results[i] = weights[i] * (slopes[i] - along) * all.scale;
  }
  store_parts(all.softmax, weights, all.softmax.probabilities, offset);
  store_parts(all.softmax, results, all.results, offset);
}

/// A block has 256 threads, for its reductions are over 8 warps.
void require_softmax_grid(std::string_view kernel, const Launch& launch, const SoftmaxRows& all) {
  if (launch.grid.x == static_cast<unsigned>(all.rows) &&
      launch.grid.y == static_cast<unsigned>(all.heads) && launch.block.x == 256) {
    return;
  }
  throw Finding(
      Verdict::Kind::host_error,
      fmt::format("{}: a grid of {} x {} blocks of {} threads for {} rows and {} heads", kernel,
                  launch.grid.x, launch.grid.y, launch.block.x, all.rows, all.heads));
}

/// What is visible of fp32 `from`, and whole parts of `to`, for every row.
void append_rows(const SoftmaxRows& all, const float* from, const void* to, Work& work) {
  const std::int64_t size = bytes_of(all.dtype);
  const auto* const target = static_cast<const std::byte*>(to);
  for (std::int64_t i = 0; i < std::int64_t{all.rows} * all.heads; ++i) {
    for (const ScorePart& part : all.parts) {
      const auto [begin, end] = visible(part, i % all.rows);
      append(work.reads, from + i * all.pitch + begin,
             (end - begin) * static_cast<std::int64_t>(sizeof(float)));
      append(work.writes, target + (i * all.pitch + part.column) * size, part.count * size);
    }
  }
}

}  // namespace

Work softmax_rows(const Launch& launch) {
  const auto all = argument<SoftmaxRows>(launch, 0);
  require_softmax_grid("softmax_rows", launch, all);
  Work work{.name = "softmax_rows", .reads = {}, .writes = {}, .run = {}};
  append_rows(all, all.scores, all.probabilities, work);
  work.duration_ns = duration_ns(work.reads, work.writes);
  work.run = [all] {
    for (std::int64_t i = 0; i < std::int64_t{all.rows} * all.heads; ++i) {
      softmax(all, i * all.pitch, i % all.rows);
    }
  };
  return work;
}

Work softmax_gradient_rows(const Launch& launch) {
  const auto all = argument<SoftmaxGradientRows>(launch, 0);
  const SoftmaxRows& of = all.softmax;
  require_softmax_grid("softmax_gradient_rows", launch, of);
  Work work{.name = "softmax_gradient_rows", .reads = {}, .writes = {}, .run = {}};
  append_rows(of, of.scores, of.probabilities, work);
  append_rows(of, all.slopes, all.results, work);
  work.duration_ns = duration_ns(work.reads, work.writes);
  work.run = [all] {
    const std::int64_t rows = std::int64_t{all.softmax.rows} * all.softmax.heads;
    for (std::int64_t i = 0; i < rows; ++i) {
      softmax_gradient(all, i * all.softmax.pitch, i % all.softmax.rows);
    }
  };
  return work;
}

}  // namespace commfuse::fake
