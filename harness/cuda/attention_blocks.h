// SPDX-License-Identifier: Apache-2.0
// How attention is cut: query rows into blocks, the keys of a block into ranges, heads into
// batches. Plain C++; harness/host/attention_kernel.h draws the causal pattern.
//
// Under a causal mask, rows are zigzag pairs: even rows see the even keys up to their own, odd rows
// all even keys and the odd ones from their own on. A block has rows of one parity, so that it
// meets at most two ranges of keys, and only the square on its diagonal is masked.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "suite/compute.h"

namespace commfuse {

/// Keys first, first + step, ..., of which row i of the block sees those with numbers in [begin + i
/// * begin_step, end + i * end_step) of the range.
struct KeyRange {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
  std::int64_t begin = 0;
  std::int64_t begin_step = 0;
  std::int64_t end = 0;
  std::int64_t end_step = 0;
};

/// Packed rows first, first + step, ... of q and whatever has its rows, which lie a constant
/// distance apart in all of them.
struct QueryBlock {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t rows = 0;
  std::array<KeyRange, 2> keys;  // the second may be empty
};

/// Query heads q_first, q_first + q_step, ..., with kv heads kv_first, kv_first + kv_step, ...
struct HeadBatch {
  std::int32_t q_first = 0;
  std::int32_t q_step = 1;
  std::int32_t kv_first = 0;
  std::int32_t kv_step = 0;
  std::int32_t heads = 0;
};

/// All batches have the same number of heads; there are as few as one distance between heads
/// allows: one per kv head, or one per head of a group.
std::vector<HeadBatch> head_batches(std::int32_t heads, std::int32_t kv_heads);

/// Rows of a block: enough for products to fill a device, few enough that scores stay within some
/// 100 MB.
std::int64_t rows_per_block(std::int32_t heads, std::int32_t kv_heads);

/// Blocks of at most `most_rows` rows, which meet every visible pair of `tokens` keys once.
/// `queries` are q and what has its rows, of one packed shape; q is the first.
std::vector<QueryBlock> query_blocks(std::span<const View> queries, std::int64_t tokens, Mask mask,
                                     std::int64_t most_rows);

}  // namespace commfuse
