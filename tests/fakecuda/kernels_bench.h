// SPDX-License-Identifier: Apache-2.0
// CudaKernels on the fake machine: real objects, fake libraries, twins of the kernels. Results are
// compared with float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/cuda/cuda_kernels.h"
#include "harness/cuda/cuda_resources.h"
#include "harness/executor.h"
#include "tests/fakecuda/device_tensors.h"
#include "tests/fakecuda/fake_runtime.h"
#include "tests/fakecuda/fake_world.h"
#include "tests/fakecuda/op_reference.h"

namespace commfuse::fake {

/// Runs the body on one rank with a device of its own.
inline Verdict on_device(const std::function<void()>& body, std::uint64_t seed = 0) {
  const FakeRuntime runtime(FakeDevices{});
  Machine machine({.seed = seed});
  return run_fake_ranks(machine, 1, [&](World&) { body(); });
}

inline void expect_fine(const std::function<void()>& body) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Verdict verdict = on_device(body, seed);
    EXPECT_TRUE(verdict.ok()) << verdict.message;
  }
}

/// A rank's stream and kernels, and the tensors of the moment.
struct KernelsBench {
  explicit KernelsBench(const GemmSettings& settings = {}) : kernels(settings, stream) {}

  /// A matrix inside a new and larger tensor, at odd offsets.
  View inside(std::int32_t rows, std::int32_t cols, DType dtype) {
    const TensorId id = tensors.add_random(rows + 3, cols + 2, dtype);
    return {.tensor = id, .row = 2, .rows = rows, .col = 1, .cols = cols};
  }
  View matrix(std::int32_t rows, std::int32_t cols, DType dtype) {
    return tensors.all(tensors.add_random(rows, cols, dtype));
  }

  void compute(const Compute& op) {
    kernels.prepare(op, tensors.storage());
    kernels.run(op, tensors.storage());
  }

  /// Runs the op and compares. Everything but its targets, each in a tensor of its own, stays as it
  /// was.
  void check(const Compute& op) {
    tensors.upload(stream);
    const std::vector<Expected> expected = reference(op, tensors);
    const std::vector<View> targets = writes(op);
    std::vector<std::vector<float>> rest;
    for (const View& target : targets) rest.push_back(tensors.values(target.tensor));
    compute(op);
    tensors.download(stream);
    std::size_t i = 0;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const View& target = targets[t];
      for (std::int64_t row = 0; row < target.total_rows(); ++row) {
        for (std::int64_t col = 0; col < target.cols; ++col, ++i) {
          const double got = tensors.at(target, row, col);
          rest[t][tensors.index(target, row, col)] = static_cast<float>(got);
          ASSERT_LE(std::abs(got - expected[i].value), expected[i].bound)
              << describe(target, tensors.tensor(target.tensor)) << " row " << row << " column "
              << col << ": " << got << " instead of " << expected[i].value;
        }
      }
      ASSERT_EQ(rest[t], tensors.values(target.tensor)) << "something else was written";
    }
  }

  /// Why the op cannot be prepared; empty if it can.
  std::string refusal(const Compute& op) {
    try {
      kernels.prepare(op, tensors.storage());
    } catch (const Unsupported& unsupported) {
      return unsupported.what();
    }
    return "";
  }

  commfuse::Stream stream{0};  // the backend's
  CudaKernels kernels;
  DeviceTensors tensors;
};

}  // namespace commfuse::fake
