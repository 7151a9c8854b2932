// SPDX-License-Identifier: Apache-2.0
// How attention and its gradient are cut on the host: query rows into blocks that see the same
// keys. attention_kernel.h draws the causal pattern.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "suite/compute.h"

namespace commfuse {

/// Keys first, first + step, ...
struct KeyStretch {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

/// Query rows whose visible keys are alike. Rows are packed rows of the q view.
struct ScoreBlock {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t rows = 0;
  std::array<KeyStretch, 2> keys;
  /// Of row i's scores, those from hidden_begin + i * begin_step up to hidden_end + i * end_step
  /// are masked.
  std::int64_t hidden_begin = 0;
  std::int64_t begin_step = 0;
  std::int64_t hidden_end = 0;
  std::int64_t end_step = 0;

  /// Scores per row, the hidden ones of the diagonal included.
  [[nodiscard]] std::int64_t columns() const { return keys[0].count + keys[1].count; }
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> hidden(std::int64_t row) const {
    return {hidden_begin + row * begin_step, hidden_end + row * end_step};
  }
};

/// Query rows of a block when `group` heads of a row are stacked. 256 rows of scores are in flight,
/// all heads together: BLAS is near its best rate from there on, and more would waste more on the
/// masked diagonal.
constexpr std::int64_t query_rows_per_block(std::int64_t group) {
  return std::max<std::int64_t>(16, 256 / group);
}

/// Row distance of the scores: whole cache lines, and no power of two, which would map a column
/// onto few cache sets.
constexpr std::int64_t score_pitch(std::int64_t tokens) { return (tokens + 15) / 16 * 16 + 16; }

/// `rows` rows 2i, 2i + 2, ... of the sequence, the first of them at packed row `packed`.
inline ScoreBlock even_block(std::int64_t packed, std::int64_t i, std::int64_t rows) {
  return {.first = packed,
          .step = 2,
          .rows = rows,
          .keys = {KeyStretch{.first = 0, .step = 2, .count = i + rows}},
          .hidden_begin = i + 1,
          .begin_step = 1,
          .hidden_end = i + rows};
}

/// `rows` rows 2i + 1, 2i + 3, ... of a sequence of `tokens`.
inline ScoreBlock odd_block(std::int64_t packed, std::int64_t i, std::int64_t rows,
                            std::int64_t tokens) {
  const std::int64_t even_keys = (tokens + 1) / 2;
  const std::int64_t odd_keys = tokens / 2;
  return {.first = packed,
          .step = 2,
          .rows = rows,
          .keys = {KeyStretch{.first = 0, .step = 2, .count = even_keys},
                   KeyStretch{.first = 2 * i + 1, .step = 2, .count = odd_keys - i}},
          .hidden_begin = even_keys,
          .hidden_end = even_keys,
          .end_step = 1};
}

/// Calls run(block) for the rows of a q that see every one of `tokens` keys.
template <class Run>
void for_full_blocks(const View& q, std::int64_t tokens, std::int64_t most_rows, const Run& run) {
  for (std::int64_t row = 0; row < q.total_rows(); row += most_rows) {
    run(ScoreBlock{.first = row,
                   .rows = std::min(most_rows, q.total_rows() - row),
                   .keys = {KeyStretch{.count = tokens}}});
  }
}

/// Calls run(block) for one strip of queries, rows [row, row + rows) of the sequence.
template <class Run>
void for_causal_blocks(std::int64_t packed, std::int64_t row, std::int64_t rows,
                       std::int64_t tokens, std::int64_t most_rows, const Run& run) {
  for (const std::int64_t parity : {0, 1}) {
    const std::int64_t skipped = row % 2 == parity ? 0 : 1;
    const std::int64_t count = (rows - skipped + 1) / 2;
    const std::int64_t begin = (row + skipped) / 2;
    for (std::int64_t done = 0; done < count; done += most_rows) {
      const std::int64_t at = packed + skipped + 2 * done;
      const std::int64_t block_rows = std::min(most_rows, count - done);
      run(parity == 0 ? even_block(at, begin + done, block_rows)
                      : odd_block(at, begin + done, block_rows, tokens));
    }
  }
}

/// Calls run(block) for blocks of at most `most_rows` rows that meet every visible pair once.
template <class Run>
void for_score_blocks(const View& q, std::int64_t tokens, Mask mask, std::int64_t most_rows,
                      const Run& run) {
  if (mask == Mask::full) return for_full_blocks(q, tokens, most_rows, run);
  for (std::int32_t s = 0; s < q.strips; ++s) {
    for_causal_blocks(std::int64_t{s} * q.rows, q.strip(s).row, q.rows, tokens, most_rows, run);
  }
}

/// Whether the query rows are rows of a sequence of `tokens`.
inline bool in_sequence(const View& queries, std::int64_t tokens) {
  const View last = queries.strip(queries.strips - 1);
  return queries.row >= 0 && last.row >= 0 && queries.row + queries.rows <= tokens &&
         last.row + last.rows <= tokens;
}

}  // namespace commfuse
