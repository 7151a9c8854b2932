// SPDX-License-Identifier: Apache-2.0
// Why exact data is exact in every schedule. bf16 holds every integer up to 2^8, fp16 up to 2^11
// and fp32 up to 2^24, so a sum of integers is free of rounding, in any order and however it is cut
// over tiles and ranks, if the sum of the terms' absolute values is at most 256. A weight row has
// at most 16 entries that are not 0, all +-1.
//   ag_gemm    |x| = 1, so sum |x| |u| <= 16.
//   gemm_rs    |a| = 1, so sum |a| |d| <= 16.
//   mlp, relu  |h| <= 16 as in ag_gemm, relu keeps that, so sum |h| |d| <= 16 * 16 = 256.
//   attention  a query holds the code of one key position times a power of two; a key its own code.
//              With c code columns the scores are scale * (c - 2 * differing columns) /
//              sqrt(head_dim): the target's score is larger than any other by at least
//              2 * scale / sqrt(head_dim) >= 104. exp(-104) < 2^-150 is 0 in fp32, the target's
//              own weight is exp(0) = 1, and so is the sum: O is the target's row of V, |o| = 1,
//              and the out-projection sums to at most 16 as in gemm_rs.
//   zero3      |x| = 1, and the n weights that follow each other have h entries per row with
//              h^n <= 256, so sums stay below that: |y| <= h^i after i of them.
//   zero2, ddp |dy| = 1 at the last map, and the n weights that dY passes have h entries per column
//              with h^n <= 16, so |dy| <= 16 at every map. X is the transpose of a weight: a column
//              has at most 16 entries over the tokens of all ranks, so sum |dy| |x| <= 256, however
//              many tokens and ranks.
//   backward   of a linear layer of tpsp: W or X is the transpose of a weight along what is summed,
//              so sum |dy| |w| <= 16 and sum |dy| |x| <= 16; of the MLP with relu: |dh| <= 16, so
//              sum |dh| |u| <= 256 and sum |dh| |x| <= 256.
//   attention, backward: |dO| <= 16 as of a linear layer. With one-hot softmaxes what reaches a
//              score is 1 * (g - g) or 0 * (...), so dQ and dK are 0; dV sums |dO| over the queries
//              that look for a key, in fp32: exact up to 2^20 of them; dWo as of a linear layer.
//   ulysses    qkv and attention as above, one alone; the block is not exact. Of qkv backward dX is
//              the sum of three linear layers' gradients, at most 3 * 16; gradients of weights are
//              as in tpsp. Attention and the block backward are not exact.
//   layer      not exact, as norms are not; its weights have one entry per row (layer_answers.h).
//   partials of comm_only are +-1: exact for up to 256 ranks.
//
// Why random data stays in range. bf16 has the exponents of fp32; fp16 ends at 65504, and beyond it
// a result is infinite and counts as wrong. With K = in_features, |x| < 1 and |w| < sqrt(2 / K):
//   a gemm of inputs   any partial sum is below sqrt(2 K) by the triangle inequality, which reaches
//                      65504 at K = 2e9. (Hoeffding: below 8 sqrt(2) = 11.4 in all but 1 of 4e13.)
//                      Of a weight gradient K is the tokens of all ranks.
//   silu(gate) * up    below 2 K, and below 130 in the sense of Hoeffding.
//   the gemm after it  below 8 sqrt(2) * 130 = 1500 in that sense (130 where there is no gate); the
//                      worst case, which no draw comes near, is 2 K sqrt(2 K2).
//   attention          scores are fp32 on every backend, O is a mean of |v| < 1.
//   layers of dp       weights are scaled so that, in the mean of squares, results of every map are
//                      between 0.4 and 0.9 (dp_layers.cpp): below 11 in the sense of Hoeffding.
//   layers             whole ones: a norm's results are of the order of 1 and gemms keep them there
//                      (layer_answers.cpp): below 60 after one of them in the sense of Hoeffding,
//                      below 3600 where the gate multiplies.
//   partials           of comm_only are below 1: sums are below the number of ranks.
// The smallest numbers are representable too: an odd multiple, at most the 255th, of 2^-8 of the
// weight's scale, which is a multiple of 2^-24 up to K = 2^32. The query scale of exact data is at
// most 2^15 up to head_dim = 390,000.
#include "suite/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "suite/compute.h"

namespace commfuse {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

/// The output function of splitmix64: a bijection whose bits all depend on all bits of its input.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Splitmix64 with a counter in place of a state: number `index` of the sequence of `key`.
std::uint64_t hash(std::uint64_t key, std::int64_t index) {
  return mix(key + kGolden * (static_cast<std::uint64_t>(index) + 1));
}

std::uint64_t row_key(const Fill& fill, const Source& source, std::int32_t row) {
  return hash(hash(mix(source.seed + kGolden), fill.global), std::int64_t{fill.row} + row);
}

float sign(std::uint64_t bit) { return (bit & 1U) == 0 ? 1.0F : -1.0F; }

/// One hash gives 64 columns.
void write_signs(std::uint64_t key, std::int32_t first, std::span<float> out) {
  const std::int64_t end = first + static_cast<std::int64_t>(out.size());
  for (std::int64_t col = first; col < end;) {
    const std::int64_t stop = std::min((col / 64 + 1) * 64, end);
    for (std::uint64_t word = hash(key, col / 64) >> (col % 64); col < stop; ++col, word >>= 1) {
      out[static_cast<std::size_t>(col - first)] = sign(word);
    }
  }
}

/// One hash gives 8 columns. Values are odd multiples of scale / 256 in (-scale, scale), symmetric
/// about 0 and of 8 significant bits.
void write_uniform(std::uint64_t key, std::int32_t first, float scale, std::span<float> out) {
  const float unit = scale / 256;
  const std::int64_t end = first + static_cast<std::int64_t>(out.size());
  for (std::int64_t col = first; col < end;) {
    const std::int64_t stop = std::min((col / 8 + 1) * 8, end);
    for (std::uint64_t word = hash(key, col / 8) >> (col % 8 * 8); col < stop; ++col, word >>= 8) {
      const auto level = static_cast<std::int32_t>(word & 0xff);
      out[static_cast<std::size_t>(col - first)] = static_cast<float>(2 * level - 255) * unit;
    }
  }
}

/// The row is cut into as many chunks as it has hits, each with one +-1 at a hashed place.
void write_hits(std::uint64_t key, std::int32_t first, std::int32_t width, std::int32_t hits,
                std::span<float> out) {
  if (width < hits) {
    write_signs(key, first, out);
    return;
  }
  std::fill(out.begin(), out.end(), 0.0F);
  const std::int64_t end = first + static_cast<std::int64_t>(out.size());
  for (std::int64_t chunk = std::int64_t{first} * hits / width; chunk < hits; ++chunk) {
    const std::int64_t low = chunk * width / hits;
    const std::int64_t high = (chunk + 1) * width / hits;
    if (low >= end) break;
    const std::uint64_t word = hash(key, chunk);
    const std::int64_t col =
        low + static_cast<std::int64_t>((word >> 1) % static_cast<std::uint64_t>(high - low));
    if (col >= first && col < end) out[static_cast<std::size_t>(col - first)] = sign(word);
  }
}

/// The least power of two whose scores differ by at least 104 after the division by
/// sqrt(head_dim).
float query_scale(std::int32_t head_dim) {
  return static_cast<float>(std::exp2(std::ceil(std::log2(52 * std::sqrt(double{1} * head_dim)))));
}

/// The key position that query row `row` of `head` looks for.
std::int32_t target_position(const Fill& fill, std::uint64_t key, std::int32_t row,
                             std::int32_t head) {
  const std::int32_t visible = fill.causal ? zigzag_position(row, fill.tokens) + 1 : fill.tokens;
  return static_cast<std::int32_t>(hash(key, head) % static_cast<std::uint64_t>(visible));
}

void write_codes(const Fill& fill, std::uint64_t key, std::int32_t row, std::span<float> out) {
  const bool query = fill.content == Content::query;
  const std::int32_t own = fill.causal ? zigzag_position(row, fill.tokens) : row;
  const float scale = query ? query_scale(fill.width) : 1.0F;
  const std::int32_t coded = std::min(code_columns(fill.tokens), fill.width);
  const auto end = fill.col + static_cast<std::int32_t>(out.size());
  std::fill(out.begin(), out.end(), 0.0F);
  for (std::int32_t head = fill.col / fill.width; head * fill.width < end; ++head) {
    const std::int32_t position = query ? target_position(fill, key, row, head) : own;
    const std::int32_t start = head * fill.width;
    for (std::int32_t col = std::max(start, fill.col); col < std::min(start + coded, end); ++col) {
      out[static_cast<std::size_t>(col - fill.col)] =
          scale * sign(static_cast<std::uint32_t>(position) >> (col - start));
    }
  }
}

void fill_exact(const Fill& fill, std::uint64_t key, std::int32_t row, std::span<float> out) {
  switch (fill.content) {
    case Content::activation:
      write_signs(key, fill.col, out);
      return;
    case Content::weight:
      write_hits(key, fill.col, fill.width, fill.hits, out);
      return;
    case Content::query:
    case Content::key:
      write_codes(fill, key, fill.row + row, out);
      return;
  }
}

/// Row `row` of a fill that is a transpose: a column of the global tensor, one element at a time.
void fill_column(const Fill& fill, const Source& source, std::int32_t row, std::span<float> out) {
  Fill element = fill;
  element.transposed = false;
  element.view.cols = 1;
  element.row = fill.col;
  element.col = fill.row + row;
  for (std::size_t i = 0; i < out.size(); ++i) {
    fill_row(element, source, static_cast<std::int32_t>(i), out.subspan(i, 1));
  }
}

}  // namespace

/// The exponent is rounded, so that products stay representable.
double weight_bound(const Fill& weight) {
  return std::exp2(weight.boost - std::round(std::log2(double{1} * weight.width) / 2));
}

Fill piece_of(const Fill& global, const View& view, std::int32_t row, std::int32_t col) {
  Fill piece = global;
  piece.view = view;
  piece.row = row;
  piece.col = col;
  return piece;
}

Fill transpose_of(Fill global) {
  global.transposed = !global.transposed;
  std::swap(global.view.rows, global.view.cols);
  return global;
}

void fill_row(const Fill& fill, const Source& source, std::int32_t row, std::span<float> out) {
  if (fill.transposed) {
    fill_column(fill, source, row, out);
    return;
  }
  const std::uint64_t key = row_key(fill, source, row);
  if (source.mode == DataMode::exact) {
    fill_exact(fill, key, row, out);
    return;
  }
  const bool weight = fill.content == Content::weight;
  write_uniform(key, fill.col, weight ? static_cast<float>(weight_bound(fill)) : 1.0F, out);
}

}  // namespace commfuse
