// SPDX-License-Identifier: Apache-2.0
// Which algorithm the fake cuBLASLt takes: a hostile choice, one that relies on all it was
// promised.
#pragma once

#include <cublasLt.h>

#include <cstdint>

#include "tests/fakecuda/cublaslt_problem.h"
#include "tests/fakecuda/cublaslt_values.h"

namespace commfuse::fake {

/// How the library behaves; of the run, set before the first heuristic by Machine::kept().
struct CublasLtModel {
  /// Algorithms can write D where it is not C.
  bool out_of_place = true;
  /// Written by algorithms that do not split K, if they get so much.
  std::uint64_t plain_workspace_bytes = 256;
  /// Multiprocessors without SM_COUNT_TARGET.
  std::int32_t multiprocessors = 132;
};

/// Splits K in two, with sums in the workspace, where that is allowed and fits.
AlgoValue choose_algorithm(const MatmulProblem& problem, const PreferenceValue& preference,
                           const CublasLtModel& model);

/// Tiles over the multiprocessors that may be used.
float waves_of(const MatmulProblem& problem, const CublasLtModel& model);

}  // namespace commfuse::fake
