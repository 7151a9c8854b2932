// SPDX-License-Identifier: Apache-2.0
// The work of a matrix multiplication on the machine.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/fakecuda/cublaslt_problem.h"
#include "tests/fakecuda/operation.h"

namespace commfuse::fake {

struct MatmulBuffers {
  float alpha = 1;
  const void* a = nullptr;
  const void* b = nullptr;
  float beta = 0;
  const void* c = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
};

/// One kernel, or two that meet in the workspace where K is split. Products are added in fp32 in
/// the order of k, and D is rounded once.
std::vector<Work> gemm_works(const MatmulProblem& problem, const AlgoValue& algo,
                             const MatmulBuffers& buffers);

}  // namespace commfuse::fake
