// SPDX-License-Identifier: Apache-2.0
#include "harness/host/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/host/blas.h"
#include "harness/host/vector_math.h"
#include "suite/rounding.h"
#include "tests/host/tensor_set.h"
#include "tests/suite/rounded_to.h"

namespace {

std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Every allocation of the program is counted.
void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace commfuse {
namespace {

constexpr double kFloatUnit = 0x1p-24;  // half a unit in the last place, relative

std::vector<double> doubles(const TensorSet& set, const View& view) {
  const std::vector<float> packed = set.read(view);
  return {packed.begin(), packed.end()};
}

/// What an element should be and how far off it may be.
struct Expected {
  double value = 0;
  double bound = 0;
};

void expect_near(const TensorSet& set, const View& view, const std::vector<Expected>& expected) {
  const std::vector<float> got = set.read(view);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool near = std::abs(got[i] - expected[i].value) <= expected[i].bound;
    ASSERT_TRUE(near) << describe(view, set.storage().tensor(view.tensor)) << " element " << i
                      << ": " << got[i] << " instead of " << expected[i].value << " +- "
                      << expected[i].bound;
  }
}

/// Everything of the tensor outside of the view is still poison.
void expect_untouched_outside(const TensorSet& set, const View& view) {
  const std::vector<float> all = set.read(set.all(view.tensor));
  const auto written =
      std::count_if(all.begin(), all.end(), [](float x) { return !std::isnan(x); });
  EXPECT_EQ(written, view.elements());
}

// ---- gemm ----

/// op(A) as M x K, packed, by the definition of strips.
std::vector<double> op_a(const TensorSet& set, const Gemm& op) {
  if (!op.transpose_a) return doubles(set, op.a);
  std::vector<double> rows;
  for (std::int32_t s = 0; s < op.a.strips; ++s) {
    const std::vector<double> strip = doubles(set, op.a.strip(s));
    for (std::int32_t m = 0; m < op.a.cols; ++m) {
      for (std::int32_t k = 0; k < op.a.rows; ++k) {
        rows.push_back(strip[static_cast<std::size_t>(k) * op.a.cols + m]);
      }
    }
  }
  return rows;
}

/// C must be taken before the gemm runs: it may be D.
std::vector<Expected> naive_gemm(const TensorSet& set, const Gemm& op) {
  const std::vector<double> a = op_a(set, op);
  const std::vector<double> b = doubles(set, op.b);
  std::vector<double> c;
  if (op.c) c = doubles(set, *op.c);
  const auto m = static_cast<std::size_t>(op.d.total_rows());
  const auto n = static_cast<std::size_t>(op.d.cols);
  const std::size_t k = a.size() / m;
  const DType dtype = set.storage().tensor(op.d.tensor).dtype;
  std::vector<Expected> d(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = op.c ? c[i * n + j] : 0;
      double magnitude = std::abs(sum);
      for (std::size_t l = 0; l < k; ++l) {
        const double product = a[i * k + l] * (op.transpose_b ? b[j * k + l] : b[l * n + j]);
        sum += product;
        magnitude += std::abs(product);
      }
      const double accumulated = static_cast<double>(k + 1) * kFloatUnit * magnitude;
      const double stored = unit_roundoff(dtype) * (std::abs(sum) + accumulated);
      d[i * n + j] = {.value = sum, .bound = accumulated + stored + underflow_error(dtype)};
    }
  }
  return d;
}

std::vector<Expected> exactly(std::vector<Expected> expected) {
  for (Expected& element : expected) element.bound = 0;
  return expected;
}

enum class Addend { absent, itself, other };

struct GemmCase {
  std::int32_t m, n, k;
  bool transpose_a, transpose_b;
  Addend addend;
  DType dtype;
};

std::string name_of_case(const testing::TestParamInfo<GemmCase>& info) {
  const GemmCase& c = info.param;
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
         (c.transpose_a ? "_At" : "_A") + (c.transpose_b ? "Bt" : "B") +
         std::array{"", "_plusD", "_plusC"}[static_cast<std::size_t>(c.addend)] + "_" +
         std::string(name_of(c.dtype));
}

std::vector<GemmCase> gemm_cases() {
  std::vector<GemmCase> cases;
  const std::vector<std::array<std::int32_t, 3>> sizes = {
      {1, 1, 1}, {1, 37, 5}, {15, 16, 17}, {16, 17, 15}, {17, 15, 16}, {31, 33, 64}, {67, 1, 41}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const Addend addend : {Addend::absent, Addend::itself, Addend::other}) {
          for (const DType dtype : kDTypes) {
            cases.push_back({m, n, k, transpose_a, transpose_b, addend, dtype});
          }
        }
      }
    }
  }
  return cases;
}

class GemmKernel : public testing::TestWithParam<GemmCase> {
 protected:
  /// Operands inside of larger tensors, so that row distances differ from widths. C and D hold
  /// values only where the op reads them.
  static Gemm make(TensorSet& set, bool exact) {
    const GemmCase& c = GetParam();
    const auto inside = [&](std::int32_t rows, std::int32_t cols, std::uint32_t seed) {
      const TensorId id = set.add(rows + 3, cols + 2, c.dtype);
      exact ? set.fill_exact(id, seed) : set.fill_random(id, seed);
      return View{.tensor = id, .row = 2, .rows = rows, .col = 1, .cols = cols};
    };
    Gemm op;
    op.transpose_a = c.transpose_a;
    op.transpose_b = c.transpose_b;
    op.a = c.transpose_a ? inside(c.k, c.m, 1) : inside(c.m, c.k, 1);
    op.b = c.transpose_b ? inside(c.n, c.k, 2) : inside(c.k, c.n, 2);
    op.d = inside(c.m, c.n, 3);
    if (c.addend == Addend::itself) op.c = op.d;
    if (c.addend == Addend::other) op.c = inside(c.m, c.n, 4);
    set.storage().poison(op.d.tensor);
    if (c.addend == Addend::itself) {
      std::vector<float> values(static_cast<std::size_t>(op.d.elements()), 3.0F);
      set.storage().write(op.d, values);
    }
    return op;
  }
};

TEST_P(GemmKernel, MatchesTheDefinition) {
  for (const bool exact : {true, false}) {
    TensorSet set;
    const Gemm op = make(set, exact);
    const std::vector<Expected> expected = naive_gemm(set, op);
    HostKernels kernels;
    kernels.prepare(op, set.storage());
    kernels.run(op, set.storage());
    // products of small whole numbers, at most 64 * 4 + 3: exact in fp32 and fp16, and up to 256 in
    // bf16
    const bool representable = exact && (GetParam().dtype != DType::bf16 || GetParam().k < 60);
    expect_near(set, op.d, representable ? exactly(expected) : expected);
    expect_untouched_outside(set, op.d);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, GemmKernel, testing::ValuesIn(gemm_cases()), name_of_case);

TEST(GemmStrips, OfAGiveStripsOfD) {
  for (const DType dtype : kDTypes) {
    TensorSet set;
    const TensorId a = set.add(24, 9, dtype);
    const TensorId b = set.add(5, 9, dtype);
    const TensorId d = set.add(24, 5, dtype);
    set.fill_exact(a, 1);
    set.fill_exact(b, 2);
    const View rows{.tensor = a, .row = 1, .rows = 3, .cols = 9, .strips = 4, .row_step = 6};
    View target = rows;
    target.tensor = d;
    target.cols = 5;
    const Gemm op{.d = target, .a = rows, .b = set.all(b), .c = {}};
    const auto expected = naive_gemm(set, op);
    HostKernels kernels;
    kernels.run(op, set.storage());
    expect_near(set, op.d, exactly(expected));
    expect_untouched_outside(set, op.d);
  }
}

TEST(GemmStrips, MayBeCutDifferentlyInAAndCAndD) {
  for (const DType dtype : kDTypes) {
    TensorSet set;
    const TensorId a = set.add(24, 9, dtype);
    const TensorId b = set.add(9, 5, dtype);
    const TensorId c = set.add(40, 8, dtype);
    const TensorId d = set.add(12, 5, dtype);
    set.fill_exact(a, 1);
    set.fill_exact(b, 2);
    set.fill_exact(c, 3);
    const Gemm op{
        .d = set.all(d),
        .a = {.tensor = a, .row = 1, .rows = 3, .cols = 9, .strips = 4, .row_step = 6},
        .b = set.all(b),
        .c =
            View{.tensor = c, .row = 2, .rows = 6, .col = 1, .cols = 5, .strips = 2, .row_step = 7},
        .transpose_b = false};
    const auto expected = naive_gemm(set, op);
    HostKernels kernels;
    kernels.run(op, set.storage());
    expect_near(set, op.d, exactly(expected));
  }
}

TEST(GemmStrips, OfATransposedAreColumns) {
  for (const DType dtype : kDTypes) {
    TensorSet set;
    const TensorId a = set.add(7, 24, dtype);
    const TensorId b = set.add(7, 5, dtype);
    const TensorId d = set.add(12, 5, dtype);
    set.fill_exact(a, 1);
    set.fill_exact(b, 2);
    const Gemm op{.d = set.all(d),
                  .a = {.tensor = a, .rows = 7, .col = 2, .cols = 4, .strips = 3, .col_step = 7},
                  .b = set.all(b),
                  .c = {},
                  .transpose_a = true,
                  .transpose_b = false};
    const auto expected = naive_gemm(set, op);
    HostKernels kernels;
    kernels.run(op, set.storage());
    expect_near(set, op.d, exactly(expected));
  }
}

/// Strips of B, each with a strip of D and of C: a batch over N.
TEST(GemmStrips, OfBGiveStripsOfD) {
  for (const DType dtype : kDTypes) {
    for (const bool weight : {false, true}) {
      TensorSet set;
      const TensorId a = set.add(7, 9, dtype);
      const TensorId b = set.add(20, 9, dtype);
      const TensorId c = set.add(21, 4, dtype);
      const TensorId d = set.add(7, 20, dtype);
      for (const TensorId id : {a, b, c}) set.fill_exact(id, id + 1);
      const Gemm op{.d = {.tensor = d, .rows = 7, .col = 1, .cols = 4, .strips = 3, .col_step = 6},
                    .a = set.all(a),
                    .b = {.tensor = b, .row = 1, .rows = 4, .cols = 9, .strips = 3, .row_step = 6},
                    .c = View{.tensor = c, .rows = 7, .cols = 4, .strips = 3, .row_step = 7}};
      std::vector<Expected> expected;
      for (std::int32_t s = 0; s < 3; ++s) {
        for (const Expected& element : naive_gemm(set, strip_of(op, s))) {
          expected.push_back(element);
        }
      }
      HostKernels kernels;
      if (weight) kernels.expand_weights(std::array{b}, set.storage());
      kernels.run(op, set.storage());
      expect_near(set, op.d, exactly(expected));
      expect_untouched_outside(set, op.d);
    }
  }
}

constexpr std::array kNarrow{DType::bf16, DType::f16};

TEST(NarrowGemm, MoreRowsThanOneBlock) {
  for (const DType dtype : kNarrow) {
    TensorSet set;
    const TensorId a = set.add(4500, 6, dtype);
    const TensorId b = set.add(3, 6, dtype);
    const TensorId d = set.add(4500, 3, dtype);
    set.fill_exact(a, 1);
    set.fill_exact(b, 2);
    const Gemm op{.d = set.all(d), .a = set.all(a), .b = set.all(b), .c = {}};
    const auto expected = naive_gemm(set, op);
    HostKernels kernels;
    kernels.run(op, set.storage());
    expect_near(set, op.d, exactly(expected));
  }
}

/// Of so many products 1 * 1.
float sum_of_ones(DType dtype, std::int32_t count) {
  TensorSet set;
  const TensorId a = set.add(1, count, dtype);
  const TensorId b = set.add(1, count, dtype);
  const TensorId d = set.add(1, 1, dtype);
  const std::vector<float> ones(static_cast<std::size_t>(count), 1.0F);
  set.storage().write(set.all(a), ones);
  set.storage().write(set.all(b), ones);
  HostKernels kernels;
  kernels.run(Gemm{.d = set.all(d), .a = set.all(a), .b = set.all(b), .c = {}}, set.storage());
  return set.read(set.all(d))[0];
}

TEST(NarrowGemm, RoundsOnceAtTheEnd) {
  // A bf16 accumulator would stop at 256, fp32 gives 511, rounded to 512.
  EXPECT_EQ(sum_of_ones(DType::bf16, 511), 512);
  EXPECT_EQ(sum_of_ones(DType::f16, 4095), 4096);
}

TEST(NarrowGemm, SumsBeyondTheRangeOfFp16AreInfinite) {
  EXPECT_EQ(sum_of_ones(DType::f16, 65519), 65504);
  EXPECT_EQ(sum_of_ones(DType::f16, 65520), std::numeric_limits<float>::infinity());
}

TEST(NarrowGemm, WritesFp32SumsWhereDIsFp32) {
  for (const DType dtype : kNarrow) {
    TensorSet set;
    const TensorId a = set.add(5, 300, dtype);
    const TensorId b = set.add(4, 300, dtype);
    const TensorId d = set.add(5, 4, DType::f32);
    set.fill_random(a, 1);
    set.fill_random(b, 2);
    const Gemm op{.d = set.all(d), .a = set.all(a), .b = set.all(b), .c = {}};
    const auto expected = naive_gemm(set, op);
    HostKernels kernels;
    kernels.run(op, set.storage());
    expect_near(set, op.d, expected);
  }
}

TEST(NarrowGemm, UsesExpandedRowsOfAWeight) {
  for (const DType dtype : kNarrow) {
    TensorSet set;
    const TensorId a = set.add(6, 10, dtype);
    const TensorId w = set.add(12, 10, dtype);
    const TensorId d = set.add(6, 4, dtype);
    set.fill_exact(a, 1);
    HostKernels kernels;
    kernels.expand_weights(std::array{w}, set.storage());  // poison so far
    set.fill_exact(w, 2);
    kernels.expand_weights(std::array{w}, set.storage());
    for (std::int32_t first = 0; first < 12; first += 4) {
      const Gemm op{.d = set.all(d),
                    .a = set.all(a),
                    .b = {.tensor = w, .row = first, .rows = 4, .cols = 10},
                    .c = {}};
      const auto expected = naive_gemm(set, op);
      kernels.run(op, set.storage());
      expect_near(set, op.d, exactly(expected));
    }
  }
}

TEST(NarrowGemm, KeepsTheExpansionUntilToldOtherwise) {
  for (const DType dtype : kNarrow) {
    // What "expand once" means: values written later are seen after the next expand_weights().
    TensorSet set;
    const TensorId a = set.add(1, 1, dtype);
    const TensorId w = set.add(1, 1, dtype);
    const TensorId d = set.add(1, 1, dtype);
    const Storage storage = set.storage();
    const Gemm op{.d = set.all(d), .a = set.all(a), .b = set.all(w), .c = {}};
    HostKernels kernels;
    storage.write(set.all(a), std::vector{1.0F});
    storage.write(set.all(w), std::vector{2.0F});
    kernels.expand_weights(std::array{w}, storage);
    storage.write(set.all(w), std::vector{3.0F});
    kernels.run(op, storage);
    EXPECT_EQ(set.read(set.all(d)), std::vector{2.0F});
    kernels.expand_weights(std::array{w}, storage);
    kernels.run(op, storage);
    EXPECT_EQ(set.read(set.all(d)), std::vector{3.0F});
  }
}

TEST(GemmKernelShapes, AreChecked) {
  TensorSet set;
  const TensorId a = set.add(4, 6);
  const TensorId b = set.add(5, 6);
  const TensorId d = set.add(4, 5);
  HostKernels kernels;
  const Storage storage = set.storage();
  const Gemm good{.d = set.all(d), .a = set.all(a), .b = set.all(b), .c = {}};
  EXPECT_NO_THROW(kernels.prepare(good, storage));
  Gemm bad = good;
  bad.transpose_b = false;
  EXPECT_THROW(kernels.prepare(bad, storage), std::invalid_argument);
  bad = good;
  bad.transpose_a = true;
  EXPECT_THROW(kernels.prepare(bad, storage), std::invalid_argument);
  bad = good;
  bad.d.rows = 3;
  EXPECT_THROW(kernels.run(bad, storage), std::invalid_argument);
  bad = good;
  bad.c = set.all(a);
  EXPECT_THROW(kernels.prepare(bad, storage), std::invalid_argument);
  bad = good;
  bad.b = {.tensor = b, .rows = 1, .cols = 6, .strips = 5, .row_step = 1};
  EXPECT_THROW(kernels.prepare(bad, storage), std::invalid_argument);
}

TEST(Blas, RefusesSizesItCannotCount) {
  use_blas_single_threaded();
  const float a = 1;
  float c = 0;
  EXPECT_THROW(sgemm(1, 1, 1, 1.0F, {.data = &a, .ld = std::int64_t{1} << 40},
                     {.data = &a, .ld = 1}, 0.0F, &c, 1),
               std::length_error);
  EXPECT_NE(describe_blas().find("OpenBLAS"), std::string::npos);
}

TEST(Blas, NamesBetterKernelsWhereItFellBackToOldOnes) {
  EXPECT_EQ(better_blas_kernels("Prescott", true, true), "SkylakeX");
  EXPECT_EQ(better_blas_kernels("Nehalem", true, false), "Haswell");
  EXPECT_EQ(better_blas_kernels("Nehalem", false, false), "");
  for (const char* chosen : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids"}) {
    EXPECT_EQ(better_blas_kernels(chosen, true, true), "");
  }
  const std::string_view here = better_blas_kernels();
  EXPECT_TRUE(here.empty() || here == "SkylakeX" || here == "Haswell") << here;
}

TEST(GemmPeak, IsARate) {
  const double peak = measure_gemm_peak();
  EXPECT_GT(peak, 1e8);
  EXPECT_LT(peak, 1e13);
}

// ---- attention ----

struct AttentionCase {
  std::int32_t tokens, heads, kv_heads, head_dim;
  Mask mask;
  DType dtype;
};

std::string name_of_attention(const testing::TestParamInfo<AttentionCase>& info) {
  const AttentionCase& c = info.param;
  return std::to_string(c.tokens) + "tokens_" + std::to_string(c.heads) + "on" +
         std::to_string(c.kv_heads) + "x" + std::to_string(c.head_dim) +
         (c.mask == Mask::causal ? "_causal_" : "_full_") + std::string(name_of(c.dtype));
}

/// Attention by an explicit mask, row by row, with a bound from the errors of scores and weights.
std::vector<Expected> naive_attention(const TensorSet& set, const Attention& op) {
  const std::vector<double> q = doubles(set, op.q);
  const std::vector<double> k = doubles(set, op.k);
  const std::vector<double> v = doubles(set, op.v);
  const auto d = static_cast<std::size_t>(op.head_dim);
  const auto kv_cols = static_cast<std::size_t>(op.k.cols);
  const std::int32_t tokens = op.k.rows;
  const DType dtype = set.storage().tensor(op.o.tensor).dtype;
  std::vector<Expected> o(q.size());
  for (std::int32_t row = 0; row < op.q.total_rows(); ++row) {
    const View strip = op.q.strip(row / op.q.rows);
    const std::int32_t position = zigzag_position(strip.row + row % op.q.rows, tokens);
    for (std::int32_t h = 0; h < op.heads; ++h) {
      const std::size_t q_at = static_cast<std::size_t>(row) * op.q.cols + h * d;
      const std::size_t kv_at = h / (op.heads / op.kv_heads) * d;
      std::vector<double> weights(static_cast<std::size_t>(tokens), 0);
      std::vector<double> errors(weights.size(), 0);
      double sum = 0;
      double sum_error = 0;
      for (std::int32_t key = 0; key < tokens; ++key) {
        if (op.mask == Mask::causal && zigzag_position(key, tokens) > position) continue;
        double score = 0;
        double magnitude = 0;
        for (std::size_t c = 0; c < d; ++c) {
          const double product = q[q_at + c] * k[key * kv_cols + kv_at + c];
          score += product;
          magnitude += std::abs(product);
        }
        const double scale = 1 / std::sqrt(static_cast<double>(d));
        weights[key] = std::exp(score * scale);
        const double score_error =
            static_cast<double>(d + 8) * kFloatUnit * (magnitude * scale + 10);
        errors[key] = weights[key] * score_error;
        sum += weights[key];
        sum_error += errors[key];
      }
      for (std::size_t c = 0; c < d; ++c) {
        double value = 0;
        double error = 0;
        for (std::int32_t key = 0; key < tokens; ++key) {
          const double x = v[key * kv_cols + kv_at + c];
          value += weights[key] * x / sum;
          error += (errors[key] + weights[key] * (sum_error / sum + tokens * kFloatUnit)) *
                   std::abs(x) / sum;
        }
        const double stored = unit_roundoff(dtype) * (std::abs(value) + error);
        o[q_at + c] = {.value = value, .bound = error + stored + underflow_error(dtype)};
      }
    }
  }
  return o;
}

Attention make_attention(TensorSet& set, const AttentionCase& c) {
  const TensorId q = set.add(c.tokens, c.heads * c.head_dim, c.dtype);
  const TensorId k = set.add(c.tokens, c.kv_heads * c.head_dim, c.dtype);
  const TensorId v = set.add(c.tokens, c.kv_heads * c.head_dim, c.dtype);
  const TensorId o = set.add(c.tokens, c.heads * c.head_dim, c.dtype);
  set.fill_random(q, 1);
  set.fill_random(k, 2);
  set.fill_random(v, 3);
  return {.o = set.all(o),
          .q = set.all(q),
          .k = set.all(k),
          .v = set.all(v),
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .mask = c.mask};
}

class AttentionKernel : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionKernel, WholeMatchesTheDefinition) {
  TensorSet set;
  const Attention op = make_attention(set, GetParam());
  HostKernels kernels;
  kernels.prepare(op, set.storage());
  kernels.run(op, set.storage());
  expect_near(set, op.o, naive_attention(set, op));
}

TEST_P(AttentionKernel, TilesMatchTheDefinition) {
  const std::int32_t tokens = GetParam().tokens;
  const std::vector<View> tiles = {
      {.row = 0, .rows = 1},
      {.row = tokens - 1, .rows = 1},
      {.row = tokens / 3, .rows = tokens / 2},
      {.row = tokens / 6, .rows = tokens / 6, .strips = 3, .row_step = tokens / 4}};
  for (const View& tile : tiles) {
    if (tile.rows == 0 || tile.row + (tile.strips - 1) * tile.row_step + tile.rows > tokens)
      continue;
    TensorSet set;
    Attention op = make_attention(set, GetParam());
    op.q.row = op.o.row = tile.row;
    op.q.rows = op.o.rows = tile.rows;
    op.q.strips = op.o.strips = tile.strips;
    op.q.row_step = op.o.row_step = tile.row_step;
    HostKernels kernels;
    kernels.run(op, set.storage());
    expect_near(set, op.o, naive_attention(set, op));
    expect_untouched_outside(set, op.o);
  }
}

std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases;
  for (const DType dtype : kDTypes) {
    for (const Mask mask : {Mask::full, Mask::causal}) {
      for (const std::int32_t tokens : {1, 2, 3, 14, 16, 31, 130}) {
        cases.push_back({tokens, 2, 2, 8, mask, dtype});
      }
      cases.push_back({34, 6, 2, 5, mask, dtype});    // groups of 3
      cases.push_back({70, 32, 1, 4, mask, dtype});   // one group, several blocks of rows
      cases.push_back({600, 1, 1, 16, mask, dtype});  // several blocks of rows per parity
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionKernel, testing::ValuesIn(attention_cases()),
                         name_of_attention);

TEST(AttentionTiles, MayLieElsewhereInO) {
  for (const DType dtype : kDTypes) {
    for (const Mask mask : {Mask::full, Mask::causal}) {
      TensorSet set;
      Attention op = make_attention(set, {12, 4, 2, 6, mask, dtype});
      op.q.row = 2;
      op.q.rows = 2;
      op.q.strips = 2;
      op.q.row_step = 4;
      const TensorId o = set.add(4, 24, dtype);
      op.o = set.all(o);
      HostKernels kernels;
      kernels.run(op, set.storage());
      expect_near(set, op.o, naive_attention(set, op));
    }
  }
}

/// Queries pick one visible key each, by scores so far apart that all other weights underflow.
TEST(AttentionExact, OneHotScoresGiveTheRowOfV) {
  constexpr std::int32_t kTokens = 40;
  constexpr std::int32_t kBits = 6;
  for (const DType dtype : kDTypes) {
    for (const Mask mask : {Mask::full, Mask::causal}) {
      TensorSet set;
      const Attention op = make_attention(set, {kTokens, 2, 1, kBits, mask, dtype});
      std::vector<float> keys;
      std::vector<float> queries;
      std::vector<std::int32_t> targets;
      const auto append_code = [](std::vector<float>& to, std::int32_t position, float scale) {
        for (std::int32_t bit = 0; bit < kBits; ++bit) {
          to.push_back((position >> bit) % 2 == 1 ? scale : -scale);
        }
      };
      for (std::int32_t row = 0; row < kTokens; ++row) {
        const std::int32_t position = zigzag_position(row, kTokens);
        append_code(keys, position, 1.0F);
        for (std::int32_t head = 0; head < 2; ++head) {
          const std::int32_t visible = mask == Mask::causal ? position + 1 : kTokens;
          const std::int32_t target = (position * 7 + head * 3) % visible;
          append_code(queries, target, 512.0F);
          targets.push_back(target);
        }
      }
      const Storage storage = set.storage();
      storage.write(op.k, keys);
      storage.write(op.q, queries);
      HostKernels kernels;
      kernels.run(op, storage);
      const std::vector<float> v = set.read(op.v);
      const std::vector<float> o = set.read(op.o);
      for (std::size_t i = 0; i < targets.size(); ++i) {
        std::int32_t row = 0;
        while (zigzag_position(row, kTokens) != targets[i]) ++row;
        for (std::size_t c = 0; c < kBits; ++c) {
          ASSERT_EQ(o[i * kBits + c], v[static_cast<std::size_t>(row) * kBits + c]);
        }
      }
    }
  }
}

TEST(AttentionExact, LargeScoresDoNotOverflow) {
  TensorSet set;
  const Attention op = make_attention(set, {8, 1, 1, 4, Mask::causal, DType::f32});
  const Storage storage = set.storage();
  storage.write(op.q, std::vector<float>(32, 1e15F));
  storage.write(op.k, std::vector<float>(32, 1e15F));
  HostKernels kernels;
  kernels.run(op, storage);
  for (const float value : set.read(op.o)) EXPECT_TRUE(std::isfinite(value));
}

TEST(AttentionShapes, AreChecked) {
  TensorSet set;
  const Attention good = make_attention(set, {12, 4, 2, 3, Mask::causal, DType::f32});
  HostKernels kernels;
  const Storage storage = set.storage();
  EXPECT_NO_THROW(kernels.prepare(good, storage));
  Attention bad = good;
  bad.kv_heads = 3;
  EXPECT_THROW(kernels.prepare(bad, storage), std::invalid_argument);
  bad = good;
  bad.o.rows = 11;
  EXPECT_THROW(kernels.prepare(bad, storage), std::invalid_argument);
  bad = good;
  bad.v.rows = 11;
  EXPECT_THROW(kernels.prepare(bad, storage), std::invalid_argument);
  bad = good;
  bad.k.rows = bad.v.rows = 6;  // queries beyond the keys' sequence
  EXPECT_THROW(kernels.prepare(bad, storage), std::invalid_argument);
  bad.mask = Mask::full;
  EXPECT_NO_THROW(kernels.prepare(bad, storage));
}

// ---- elementwise ----

TEST(VectorExp, IsAccurateOverItsWholeRange) {
  double worst = 0;
  for (std::uint32_t bits = 0; bits < 0x42b17000U; bits += 1009) {  // up to 88.72
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const float x = std::bit_cast<float>(bits | sign);
      if (x < -87.3F) continue;
      const double exact = std::exp(static_cast<double>(x));
      worst = std::max(worst, std::abs(vector_exp(x) / exact - 1));
    }
  }
  EXPECT_LT(worst, 1.7e-7);
}

TEST(VectorExp, EndsInZeroInfinityAndNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(vector_exp(0.0F), 1.0F);
  EXPECT_EQ(vector_exp(-0.0F), 1.0F);
  for (const float x : {-87.336F, 88.722F}) {  // the last ones that are normal and finite
    EXPECT_NEAR(vector_exp(x) / std::exp(static_cast<double>(x)), 1, 1.7e-7);
  }
  for (const float x : {-87.337F, -100.0F, -1e6F, -3e38F, -kInfinity}) {
    EXPECT_EQ(vector_exp(x), 0.0F);
  }
  for (const float x : {88.723F, 100.0F, 1e6F, 3e38F, kInfinity}) {
    EXPECT_EQ(vector_exp(x), kInfinity);
  }
  EXPECT_TRUE(std::isnan(vector_exp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(vector_exp(-std::numeric_limits<float>::quiet_NaN())));
}

TEST(HalfSquareExp, IsAccurateWhereFloatIsNormal) {
  double worst = 0;
  for (float x = 0; x < 13.2F; x += 0.00037F) {
    const double exact = std::exp(-static_cast<double>(x) * static_cast<double>(x) / 2);
    worst = std::max(worst, std::abs(half_square_exp(x) / exact - 1));
    ASSERT_EQ(half_square_exp(x), half_square_exp(-x));
  }
  EXPECT_LT(worst, 2.5e-7);
  EXPECT_EQ(half_square_exp(15.0F), 0.0F);
  EXPECT_EQ(half_square_exp(std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isnan(half_square_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(NormalTail, IsAccurateWhereFloatIsNormal) {
  double worst = 0;
  for (float x = 0; x < 12.9F; x += 0.00037F) {
    const double exact = 0.5 * std::erfc(static_cast<double>(x) / std::sqrt(2.0));
    worst = std::max(worst, std::abs(normal_tail(x) / exact - 1));
    ASSERT_EQ(normal_tail(x), normal_tail(-x));
  }
  EXPECT_LT(worst, 5e-7);
  EXPECT_EQ(normal_tail(15.0F), 0.0F);
  EXPECT_EQ(normal_tail(std::numeric_limits<float>::infinity()), 0.0F);
}

/// y of one row of x through a tensor of the dtype, at an odd column of a wider tensor.
std::vector<float> activate(Activation kind, const std::vector<float>& x, DType dtype) {
  TensorSet set;
  const auto x_cols = static_cast<std::int32_t>(x.size());
  const std::int32_t y_cols = kind == Activation::swiglu ? x_cols / 2 : x_cols;
  const TensorId in = set.add(3, x_cols + 5, dtype);
  const TensorId out = set.add(2, y_cols + 1, dtype);
  const Elementwise op{.y = {.tensor = out, .row = 1, .rows = 1, .col = 1, .cols = y_cols},
                       .x = {.tensor = in, .row = 2, .rows = 1, .col = 3, .cols = x_cols},
                       .kind = kind};
  set.storage().write(op.x, x);
  HostKernels kernels;
  kernels.run(op, set.storage());
  return set.read(op.y);
}

std::vector<float> ramp(float low, float high, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = low + (high - low) * static_cast<float>(i) / static_cast<float>(count - 1);
  }
  return values;
}

TEST(ElementwiseKernel, ReluIsExactAndKeepsNaN) {
  for (const DType dtype : kDTypes) {
    const std::vector<float> y =
        activate(Activation::relu,
                 {-1.5F, -0.0F, 0.0F, 2.5F, std::numeric_limits<float>::quiet_NaN()}, dtype);
    EXPECT_EQ((std::vector<float>(y.begin(), y.end() - 1)), (std::vector<float>{0, 0, 0, 2.5F}));
    EXPECT_FALSE(std::signbit(y[1]));
    EXPECT_TRUE(std::isnan(y.back()));
  }
}

TEST(ElementwiseKernel, GeluMatchesTheErrorFunction) {
  const std::vector<float> x = ramp(-12.5F, 12.5F, 5003);  // more than one chunk, an odd rest
  const std::vector<float> y = activate(Activation::gelu, x, DType::f32);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = x[i] * 0.5 * std::erfc(-static_cast<double>(x[i]) / std::sqrt(2.0));
    ASSERT_NEAR(y[i], exact, 8 * kFloatUnit * std::abs(exact)) << x[i];
  }
  EXPECT_TRUE(std::isnan(
      activate(Activation::gelu, {std::numeric_limits<float>::quiet_NaN()}, DType::f32)[0]));
}

TEST(ElementwiseKernel, SwigluMatchesTheSigmoid) {
  std::vector<float> x = ramp(-80.0F, 80.0F, 5003);
  const std::vector<float> up = ramp(2.0F, -3.0F, 5003);
  x.insert(x.end(), up.begin(), up.end());
  const std::vector<float> y = activate(Activation::swiglu, x, DType::f32);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double gate = x[i];
    const double exact = gate / (1 + std::exp(-gate)) * up[i];
    ASSERT_NEAR(y[i], exact, 8 * kFloatUnit * std::abs(exact)) << gate;
  }
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(activate(Activation::swiglu, {kNaN, 1.0F}, DType::f32)[0]));
  EXPECT_TRUE(std::isnan(activate(Activation::swiglu, {1.0F, kNaN}, DType::f32)[0]));
  EXPECT_EQ(activate(Activation::swiglu, {-200.0F, 1.0F}, DType::f32)[0], 0.0F);
}

TEST(ElementwiseKernel, RoundsNarrowResultsOnce) {
  for (const DType dtype : kNarrow) {
    for (const Activation kind : {Activation::relu, Activation::gelu, Activation::swiglu}) {
      std::vector<float> in = ramp(-4.0F, 4.0F, 1400);
      for (float& value : in) value = static_cast<float>(rounded_to(dtype, value));
      const std::vector<float> in_fp32 = activate(kind, in, DType::f32);
      const std::vector<float> narrow = activate(kind, in, dtype);
      for (std::size_t i = 0; i < in_fp32.size(); ++i) {
        ASSERT_EQ(narrow[i], rounded_to(dtype, in_fp32[i])) << in[i];
      }
    }
  }
}

TEST(ElementwiseKernel, WorksOnStripsAndInPlace) {
  TensorSet set;
  const TensorId x = set.add(12, 6);
  set.fill_random(x, 1);
  const View strips{.tensor = x, .row = 1, .rows = 2, .cols = 6, .strips = 3, .row_step = 4};
  const std::vector<float> before = set.read(set.all(x));
  HostKernels kernels;
  kernels.run(Elementwise{.y = strips, .x = strips, .kind = Activation::relu}, set.storage());
  const std::vector<float> after = set.read(set.all(x));
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::size_t row = i / 6;
    const bool inside = row % 4 == 1 || row % 4 == 2;
    EXPECT_EQ(after[i], inside ? std::max(before[i], 0.0F) : before[i]);
  }
}

TEST(ElementwiseKernel, ShapesAreChecked) {
  TensorSet set;
  const TensorId x = set.add(4, 6);
  const TensorId y = set.add(4, 3);
  HostKernels kernels;
  const Storage storage = set.storage();
  EXPECT_THROW(kernels.prepare(Elementwise{.y = set.all(y), .x = set.all(x)}, storage),
               std::invalid_argument);
  EXPECT_NO_THROW(kernels.prepare(
      Elementwise{.y = set.all(y), .x = set.all(x), .kind = Activation::swiglu}, storage));
}

// ---- accumulate, reduce, copy ----

TEST(AccumulateKernel, AddsStripsInFp32AndRoundsOnce) {
  for (const DType dtype : kDTypes) {
    for (const bool narrow : {false, true}) {
      for (const bool in_place : {false, true}) {
        TensorSet set;
        const TensorId a = set.add(7, 11, dtype);
        const TensorId terms = set.add(40, 11, dtype);
        const TensorId d = in_place ? a : set.add(7, 11, dtype);
        set.fill_random(a, 1);
        set.fill_random(terms, 2);
        const std::int32_t col = narrow ? 2 : 0;
        const std::int32_t cols = narrow ? 5 : 11;
        const Accumulate op{.d = {.tensor = d, .row = 1, .rows = 6, .col = col, .cols = cols},
                            .a = {.tensor = a, .row = 1, .rows = 6, .col = col, .cols = cols},
                            .terms = {.tensor = terms,
                                      .row = 3,
                                      .rows = 6,
                                      .col = col,
                                      .cols = cols,
                                      .strips = 4,
                                      .row_step = 9}};
        const std::vector<float> first = set.read(op.a);
        const std::vector<float> others = set.read(op.terms);
        HostKernels kernels;
        kernels.prepare(op, set.storage());
        kernels.run(op, set.storage());
        std::vector<Expected> expected;
        for (std::size_t i = 0; i < first.size(); ++i) {
          float sum = first[i];
          for (std::size_t s = 0; s < 4; ++s) sum += others[s * first.size() + i];
          expected.push_back({.value = rounded_to(dtype, sum)});
        }
        expect_near(set, op.d, expected);
      }
    }
  }
}

TEST(AccumulateKernel, TargetsMayHaveStrips) {
  TensorSet set;
  const TensorId a = set.add(12, 3);
  const TensorId terms = set.add(8, 3);
  const TensorId d = set.add(4, 3);
  set.fill_exact(a, 1);
  set.fill_exact(terms, 2);
  const Accumulate op{
      .d = set.all(d),
      .a = {.tensor = a, .row = 1, .rows = 2, .cols = 3, .strips = 2, .row_step = 6},
      .terms = {.tensor = terms, .rows = 4, .cols = 3, .strips = 2, .row_step = 4}};
  HostKernels kernels;
  kernels.run(op, set.storage());
  const std::vector<float> first = set.read(op.a);
  const std::vector<float> others = set.read(op.terms);
  const std::vector<float> sum = set.read(op.d);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    EXPECT_EQ(sum[i], first[i] + others[i] + others[i + sum.size()]);
  }
}

TEST(AccumulateKernel, ShapesAreChecked) {
  TensorSet set;
  const TensorId d = set.add(4, 3);
  const TensorId other = set.add(4, 3, DType::bf16);
  HostKernels kernels;
  const Storage storage = set.storage();
  const View all = set.all(d);
  const View half{.tensor = d, .rows = 2, .cols = 3, .strips = 2, .row_step = 2};
  EXPECT_NO_THROW(kernels.prepare(Accumulate{.d = all, .a = all, .terms = all}, storage));
  EXPECT_THROW(kernels.prepare(Accumulate{.d = all, .a = all, .terms = half}, storage),
               std::invalid_argument);
  EXPECT_THROW(kernels.prepare(Accumulate{.d = all, .a = all, .terms = set.all(other)}, storage),
               std::invalid_argument);
}

TEST(ResidualKernel, AddsInFp32AndRoundsOnce) {
  for (const DType dtype : kDTypes) {
    for (const TensorId target : {TensorId{0}, TensorId{1}, TensorId{2}}) {
      for (const bool at_once : {false, true}) {
        TensorSet set;
        for (const std::uint32_t seed : {1U, 2U, 3U}) {
          set.fill_random(set.add(10, 1500, dtype), seed);
        }
        const View piece{.row = 1, .rows = 4, .col = 2, .cols = 1490};
        const View strips{.row = 1, .rows = 2, .col = 7, .cols = 1490, .strips = 2, .row_step = 5};
        const auto view = [&](TensorId id) {
          View part = at_once ? set.all(id) : id == 0 ? strips : piece;
          part.tensor = id;
          return part;
        };
        const Residual op{.y = view(target), .x = view(0), .r = view(1)};
        const std::vector<float> x = set.read(op.x);
        const std::vector<float> r = set.read(op.r);
        HostKernels kernels;
        kernels.run(op, set.storage());
        std::vector<float> sum;
        for (std::size_t i = 0; i < x.size(); ++i) {
          sum.push_back(static_cast<float>(rounded_to(dtype, x[i] + r[i])));
        }
        EXPECT_EQ(set.read(op.y), sum);
      }
    }
  }
}

TEST(ResidualKernel, ShapesAreChecked) {
  TensorSet set;
  const View x = set.all(set.add(4, 3));
  const View narrow = set.all(set.add(4, 3, DType::bf16));
  View short_of_a_row = x;
  short_of_a_row.rows = 3;
  HostKernels kernels;
  const auto refused = [&](const Residual& op) {
    EXPECT_THROW(kernels.prepare(op, set.storage()), std::invalid_argument);
  };
  EXPECT_NO_THROW(kernels.prepare(Residual{x, x, x}, set.storage()));
  refused({x, narrow, x});
  refused({x, x, narrow});
  refused({x, short_of_a_row, x});
  refused({x, x, short_of_a_row});
}

TEST(ReduceBlocks, SumsInOrderAndMayWriteOverATerm) {
  constexpr std::size_t kElements = 5001;  // more than one chunk, an odd rest
  for (std::size_t count : {1U, 2U, 3U, 7U}) {
    for (std::size_t target = 0; target < count; ++target) {
      TensorSet set;
      std::vector<const std::byte*> terms;
      std::vector<float> expected(kElements, 0.0F);
      for (std::size_t t = 0; t < count; ++t) {
        const TensorId id = set.add(1, kElements);
        set.fill_random(id, static_cast<std::uint32_t>(t));
        const std::vector<float> values = set.read(set.all(id));
        for (std::size_t i = 0; i < kElements; ++i) expected[i] += values[i];
      }
      const Storage storage = set.storage();
      for (std::size_t t = 0; t < count; ++t)
        terms.push_back(storage.data(static_cast<TensorId>(t)));
      const auto id = static_cast<TensorId>(target);
      reduce_blocks(DType::f32, storage.data(id), terms, kElements);
      EXPECT_EQ(set.read(set.all(id)), expected);
    }
  }
}

TEST(ReduceBlocks, AccumulatesInFp32) {
  for (const DType dtype : kNarrow) {
    // Each addition of 1 alone would be rounded away.
    const float large = dtype == DType::bf16 ? 256.0F : 2048.0F;
    TensorSet set;
    for (const float value : {large, 1.0F, 1.0F}) {
      const TensorId id = set.add(1, 3, dtype);
      set.storage().write(set.all(id), std::vector<float>(3, value));
    }
    const TensorId target = set.add(1, 3, dtype);
    const Storage storage = set.storage();
    const std::array<const std::byte*, 3> terms{storage.data(0), storage.data(1), storage.data(2)};
    reduce_blocks(dtype, storage.data(target), terms, 3);
    EXPECT_EQ(set.read(set.all(target)), std::vector<float>(3, large + 2));
  }
}

TEST(CopyKernel, CopiesPackedOrder) {
  TensorSet set;
  const TensorId s = set.add(12, 5, DType::bf16);
  const TensorId d = set.add(6, 5, DType::bf16);
  set.fill_random(s, 1);
  const Copy op{.d = set.all(d),
                .s = {.tensor = s, .row = 1, .rows = 2, .cols = 5, .strips = 3, .row_step = 4}};
  HostKernels kernels;
  kernels.prepare(op, set.storage());
  kernels.run(op, set.storage());
  EXPECT_EQ(set.read(op.d), set.read(op.s));
  EXPECT_THROW(kernels.prepare(Copy{.d = set.all(d), .s = set.all(s)}, set.storage()),
               std::invalid_argument);
}

/// Rows of more than one chunk, of strips; values that lie between those of the narrow dtype.
TEST(CopyKernel, RoundsToTheDtypeOfItsResult) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    TensorSet set;
    const TensorId s = set.add(8, 1500, DType::f32);
    const TensorId d = set.add(4, 1500, dtype);
    const TensorId back = set.add(4, 1500, DType::f32);
    set.fill_random(s, 1);
    const Copy op{.d = set.all(d),
                  .s = {.tensor = s, .rows = 2, .cols = 1500, .strips = 2, .row_step = 4}};
    HostKernels kernels;
    kernels.prepare(op, set.storage());
    kernels.run(op, set.storage());
    const auto got = set.read(op.d);
    const auto source = set.read(op.s);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], rounded_to(dtype, source[i])) << i;
    }
    EXPECT_NE(got, source);
    kernels.run(Copy{.d = set.all(back), .s = set.all(d)}, set.storage());
    EXPECT_EQ(set.read(set.all(back)), got);
    EXPECT_THROW(kernels.prepare(Copy{.d = set.all(d), .s = set.all(s)}, set.storage()),
                 std::invalid_argument);
  }
}

// ---- all kinds ----

/// One op of every kind, in every dtype, whose tensors hold random values.
std::vector<Compute> one_of_each(TensorSet& set) {
  std::vector<Compute> ops;
  for (const DType dtype : kDTypes) {
    const auto add = [&](std::int32_t rows, std::int32_t cols) {
      const TensorId id = set.add(rows, cols, dtype);
      set.fill_random(id, id);
      return set.all(id);
    };
    ops.emplace_back(
        Gemm{.d = add(150, 70), .a = add(150, 90), .b = add(70, 90), .c = add(150, 70)});
    ops.emplace_back(Attention{.o = add(120, 32),
                               .q = add(120, 32),
                               .k = add(120, 16),
                               .v = add(120, 16),
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 8,
                               .mask = Mask::causal});
    ops.emplace_back(AttentionGradient{.dq = add(120, 32),
                                       .dk = add(120, 16),
                                       .dv = add(120, 16),
                                       .d_o = add(120, 32),
                                       .q = add(120, 32),
                                       .k = add(120, 16),
                                       .v = add(120, 16),
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 8,
                                       .mask = Mask::causal});
    ops.emplace_back(Elementwise{.y = add(9, 40), .x = add(9, 80), .kind = Activation::swiglu});
    ops.emplace_back(ActivationGradient{
        .dx = add(9, 80), .dy = add(9, 40), .x = add(9, 80), .kind = Activation::swiglu});
    ops.emplace_back(Norm{.y = add(9, 40), .x = add(9, 40), .gamma = add(1, 40)});
    ops.emplace_back(
        NormGradient{.dx = add(9, 40), .dy = add(9, 40), .x = add(9, 40), .gamma = add(1, 40)});
    ops.emplace_back(GammaGradient{.d = add(1, 40), .dy = add(9, 40), .x = add(9, 40)});
    ops.emplace_back(Residual{.y = add(9, 40), .x = add(9, 40), .r = add(9, 40)});
    const auto state = [&] {
      const TensorId id = set.add(9, 40);
      set.fill_random(id, id);
      return set.all(id);
    };
    ops.emplace_back(Adam{.new_w = state(),
                          .new_m = state(),
                          .new_v = state(),
                          .w = state(),
                          .m = state(),
                          .v = state(),
                          .g = add(9, 40),
                          .copy = add(9, 40)});
    View terms = add(18, 40);
    terms.rows = 6;
    terms.strips = 3;
    terms.row_step = 6;
    ops.emplace_back(Accumulate{.d = add(6, 40), .a = add(6, 40), .terms = terms});
    ops.emplace_back(Copy{.d = add(6, 40), .s = add(8, 30)});
  }
  return ops;
}

TEST(HostKernels, RunAllocatesNothingOncePrepared) {
  TensorSet set;
  const std::vector<Compute> ops = one_of_each(set);
  const Storage storage = set.storage();
  HostKernels kernels;
  kernels.expand_weights(std::array{writes(ops[0]).front().tensor}, storage);
  for (const Compute& op : ops) kernels.prepare(op, storage);
  const std::int64_t before = allocations.load();
  for (const Compute& op : ops) kernels.run(op, storage);
  EXPECT_EQ(allocations.load(), before);
  const auto proof = std::make_unique<int>(0);  // that the counter counts
  EXPECT_GT(allocations.load(), before);
}

TEST(HostKernels, ThreadsAtOnceGetTheSameResultsAsAlone) {
  constexpr std::size_t kThreads = 4;
  std::array<TensorSet, kThreads + 1> sets;
  std::vector<Compute> ops;
  for (TensorSet& set : sets) ops = one_of_each(set);
  const auto work = [&](TensorSet& set) {
    HostKernels kernels;
    const Storage storage = set.storage();
    for (int repetition = 0; repetition < 20; ++repetition) {
      for (const Compute& op : ops) kernels.run(op, storage);
    }
  };
  work(sets[kThreads]);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) threads.emplace_back(work, std::ref(sets[t]));
  for (std::thread& thread : threads) thread.join();
  for (const Compute& op : ops) {
    for (const View& target : writes(op)) {
      const std::vector<float> alone = sets[kThreads].read(target);
      for (std::size_t t = 0; t < kThreads; ++t) EXPECT_EQ(sets[t].read(target), alone);
    }
  }
}

}  // namespace
}  // namespace commfuse
