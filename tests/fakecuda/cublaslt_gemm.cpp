// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/cublaslt_gemm.h"

#include <memory>
#include <utility>

namespace commfuse::fake {
namespace {

// Of an invented device: what matters is that kernels take time.
constexpr std::int64_t kLaunch_ns = 2000;
constexpr std::uint64_t kMultiplicationsPer_ns = 1000;

using Sums = std::vector<float>;  // [batch][col][row] of the products, before alpha

NumberFormat format(const LayoutValue& layout) { return *format_of(layout.type); }

/// op(matrix) of one batch in fp32, each of its `lines` along k without gaps: `at(line, k)` is the
/// element's row and column in the layout.
template <class At>
std::vector<float> expand(const MatmulProblem& problem, const LayoutValue& layout, const void* data,
                          std::int32_t batch, std::uint64_t lines, At at) {
  const bool tf32 = problem.operation.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  std::vector<float> values(lines * problem.k);
  for (std::uint64_t line = 0; line < lines; ++line) {
    for (std::uint64_t k = 0; k < problem.k; ++k) {
      const auto [row, col] = at(line, k);
      const float value = load(format(layout), data, element_index(layout, batch, row, col));
      values[line * problem.k + k] = tf32 ? round_to_tf32(value) : value;
    }
  }
  return values;
}

struct Position {
  std::uint64_t row = 0;
  std::uint64_t col = 0;
};

Position along_row(std::uint64_t line, std::uint64_t k) { return {line, k}; }
Position along_col(std::uint64_t line, std::uint64_t k) { return {k, line}; }

template <class Body>
void for_each_element(const MatmulProblem& problem, Body body) {
  std::size_t index = 0;
  for (std::int32_t batch = 0; batch < problem.batch; ++batch) {
    for (std::uint64_t col = 0; col < problem.n; ++col) {
      for (std::uint64_t row = 0; row < problem.m; ++row) body(index++, batch, row, col);
    }
  }
}

Sums multiply(const MatmulProblem& problem, const MatmulBuffers& buffers) {
  const bool a_transposed = problem.operation.trans_a == CUBLAS_OP_T;
  const bool b_transposed = problem.operation.trans_b == CUBLAS_OP_T;
  Sums sums;
  for (std::int32_t batch = 0; batch < problem.batch; ++batch) {
    const std::vector<float> a = expand(problem, problem.a, buffers.a, batch, problem.m,
                                        a_transposed ? along_col : along_row);
    const std::vector<float> b = expand(problem, problem.b, buffers.b, batch, problem.n,
                                        b_transposed ? along_row : along_col);
    for (std::uint64_t col = 0; col < problem.n; ++col) {
      for (std::uint64_t row = 0; row < problem.m; ++row) {
        float sum = 0;
        for (std::uint64_t k = 0; k < problem.k; ++k) {
          sum += a[row * problem.k + k] * b[col * problem.k + k];
        }
        sums.push_back(sum);
      }
    }
  }
  return sums;
}

void finish(const MatmulProblem& problem, const MatmulBuffers& buffers, const Sums& sums) {
  for_each_element(
      problem, [&](std::size_t index, std::int32_t batch, std::uint64_t row, std::uint64_t col) {
        float value = buffers.alpha * sums[index];
        if (buffers.beta != 0) {
          value += buffers.beta *
                   load(format(problem.c), buffers.c, element_index(problem.c, batch, row, col));
        }
        store(format(problem.d), buffers.d, element_index(problem.d, batch, row, col), value);
      });
}

void append(std::vector<Range>& ranges, const LayoutValue& layout, const void* data) {
  const std::vector<Range> more = ranges_of(layout, data);
  ranges.insert(ranges.end(), more.begin(), more.end());
}

std::int64_t duration_ns(const MatmulProblem& problem) {
  const std::uint64_t multiplications =
      problem.m * problem.n * problem.k * static_cast<std::uint64_t>(problem.batch);
  return kLaunch_ns + static_cast<std::int64_t>(multiplications / kMultiplicationsPer_ns);
}

}  // namespace

std::vector<Work> gemm_works(const MatmulProblem& problem, const AlgoValue& algo,
                             const MatmulBuffers& buffers) {
  Work gemm{"nvjet_tst_128x256", {}, {}, duration_ns(problem), {}};
  append(gemm.reads, problem.a, buffers.a);
  append(gemm.reads, problem.b, buffers.b);
  const Range workspace{buffers.workspace, algo.workspace_bytes};
  if (workspace.bytes > 0) gemm.writes.push_back(workspace);

  Work reduction{"cublasLt::splitKreduce_kernel", {workspace}, {}, kLaunch_ns, {}};
  Work& last = algo.splits > 1 ? reduction : gemm;
  if (buffers.beta != 0) append(last.reads, problem.c, buffers.c);
  append(last.writes, problem.d, buffers.d);
  if (algo.splits == 1) {
    gemm.run = [=] { finish(problem, buffers, multiply(problem, buffers)); };
    return {std::move(gemm)};
  }
  const auto sums = std::make_shared<Sums>();
  gemm.run = [=] { *sums = multiply(problem, buffers); };
  reduction.run = [=] { finish(problem, buffers, *sums); };
  return {std::move(gemm), std::move(reduction)};
}

}  // namespace commfuse::fake
