// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/attention_blocks.h"

#include <algorithm>

#include "harness/cuda/packed_rows.h"

namespace commfuse {
namespace {

/// Rows of scores in flight, all heads of a batch together.
constexpr std::int64_t kScoreRows = 8192;
/// More rows than this waste too much on the masked diagonal, fewer too much of a gemm's tile.
constexpr std::int64_t kMostQueryRows = 512;
constexpr std::int64_t kLeastQueryRows = 128;

/// Packed rows [packed, packed + rows), which are rows [row, row + rows) of the sequence.
struct Stretch {
  std::int64_t packed = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

/// Rows without a break in any of the views.
std::vector<Stretch> stretches(std::span<const View> queries) {
  const View q = joined(queries.front());
  std::vector<Stretch> all;
  for (std::int64_t packed = 0; packed < q.total_rows(); packed += all.back().rows) {
    std::int64_t rows = rows_left(q, packed);
    for (const View& view : queries) rows = std::min(rows, rows_left(joined(view), packed));
    all.push_back({.packed = packed, .row = packed_row_of(q, packed).row, .rows = rows});
  }
  return all;
}

KeyRange seen_by_all(std::int64_t step, std::int64_t count) {
  return {.step = step, .count = count, .end = count};
}

/// Rows 2i, 2i + 2, ... of the sequence.
std::array<KeyRange, 2> keys_of_even(std::int64_t i, std::int64_t rows) {
  return {KeyRange{.step = 2, .count = i + rows, .end = i + 1, .end_step = 1}, KeyRange{}};
}

/// Rows 2i + 1, 2i + 3, ... of a sequence of `tokens`.
std::array<KeyRange, 2> keys_of_odd(std::int64_t i, std::int64_t tokens) {
  const std::int64_t count = tokens / 2 - i;
  return {seen_by_all(2, (tokens + 1) / 2),
          KeyRange{.first = 2 * i + 1, .step = 2, .count = count, .begin_step = 1, .end = count}};
}

void cut_full(const Stretch& stretch, std::int64_t tokens, std::int64_t most_rows,
              std::vector<QueryBlock>& blocks) {
  for (std::int64_t done = 0; done < stretch.rows; done += most_rows) {
    blocks.push_back({.first = stretch.packed + done,
                      .rows = std::min(most_rows, stretch.rows - done),
                      .keys = {seen_by_all(1, tokens), KeyRange{}}});
  }
}

void cut_causal(const Stretch& stretch, std::int64_t tokens, std::int64_t most_rows,
                std::vector<QueryBlock>& blocks) {
  for (const std::int64_t parity : {0, 1}) {
    const std::int64_t skipped = stretch.row % 2 == parity ? 0 : 1;
    const std::int64_t count = (stretch.rows - skipped + 1) / 2;
    for (std::int64_t done = 0; done < count; done += most_rows) {
      const std::int64_t i = (stretch.row + skipped) / 2 + done;
      const std::int64_t rows = std::min(most_rows, count - done);
      blocks.push_back({.first = stretch.packed + skipped + 2 * done,
                        .step = 2,
                        .rows = rows,
                        .keys = parity == 0 ? keys_of_even(i, rows) : keys_of_odd(i, tokens)});
    }
  }
}

}  // namespace

std::vector<HeadBatch> head_batches(std::int32_t heads, std::int32_t kv_heads) {
  const std::int32_t group = heads / kv_heads;
  std::vector<HeadBatch> batches;
  if (kv_heads <= group) {
    for (std::int32_t kv = 0; kv < kv_heads; ++kv) {
      batches.push_back({.q_first = kv * group, .q_step = 1, .kv_first = kv, .heads = group});
    }
  } else {
    for (std::int32_t head = 0; head < group; ++head) {
      batches.push_back({.q_first = head, .q_step = group, .kv_step = 1, .heads = kv_heads});
    }
  }
  return batches;
}

std::int64_t rows_per_block(std::int32_t heads, std::int32_t kv_heads) {
  const std::int64_t batch = std::max(kv_heads, heads / kv_heads);
  return std::clamp(kScoreRows / batch, kLeastQueryRows, kMostQueryRows);
}

std::vector<QueryBlock> query_blocks(std::span<const View> queries, std::int64_t tokens, Mask mask,
                                     std::int64_t most_rows) {
  std::vector<QueryBlock> blocks;
  for (const Stretch& stretch : stretches(queries)) {
    if (mask == Mask::full) {
      cut_full(stretch, tokens, most_rows, blocks);
    } else {
      cut_causal(stretch, tokens, most_rows, blocks);
    }
  }
  return blocks;
}

}  // namespace commfuse
