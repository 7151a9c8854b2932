// SPDX-License-Identifier: Apache-2.0
// Bounds of the oracle against plain fp32 loops: inputs that the oracle may know inexactly, and how
// close results come to their bounds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "suite/oracle_linear.h"
#include "suite/rounding.h"
#include "tests/suite/rounded_to.h"

namespace commfuse {

/// What the oracle knows of an input, and what a run has: the same numbers, or others within the
/// error that the oracle knows of.
struct Input {
  Rows known;
  std::vector<float> had;
};

inline Input random_input(std::int32_t count, std::int32_t cols, DType dtype, bool off,
                          unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> any(-1, 1);
  Input input{Rows(count, cols), {}};
  for (std::size_t i = 0; i < input.known.value.size(); ++i) {
    const double stored = rounded_to(dtype, any(random));
    const double error = off ? 3 * unit_roundoff(dtype) * std::abs(stored) : 0;
    input.known.value[i] = stored + error * any(random);
    input.known.error[i] = input.known.scale[i] = error;
    input.had.push_back(static_cast<float>(stored));
  }
  return input;
}

/// How results compare with the oracle's rows.
struct Closeness {
  double worst = 0;  // the largest difference, as a share of its bound
  double width = 0;  // the mean bound, in units roundoff of the mean magnitude
};

inline Closeness compare(const Rows& expected, const std::vector<float>& got, DType dtype) {
  Closeness result;
  double bounds = 0;
  double sizes = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double stored = rounded_to(dtype, got[i]);
    const double difference = std::abs(stored - expected.value[i]);
    EXPECT_LE(difference, expected.error[i]) << i << ": " << stored << ", " << expected.value[i];
    EXPECT_LE(expected.scale[i], expected.error[i] * (1 + 1e-12));
    if (difference > 0) result.worst = std::max(result.worst, difference / expected.error[i]);
    bounds += expected.error[i];
    sizes += std::abs(expected.value[i]);
  }
  result.width = bounds / sizes / unit_roundoff(dtype);
  return result;
}

/// Calls check(dtype, whether inputs have errors) for all of both.
template <class Check>
void for_inputs(Check check) {
  for (const DType dtype : kDTypes) {
    for (const bool off : {false, true}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + (off ? ", inputs with errors" : ""));
      check(dtype, off);
    }
  }
}

}  // namespace commfuse
