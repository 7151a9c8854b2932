// SPDX-License-Identifier: Apache-2.0
// For tests of the fake cuBLASLt: a multiplication to change parts of, a rank with operands, and a
// run of it with many seeds.
#pragma once

#include <cublasLt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/number_format.h"

namespace commfuse::fake {

/// A 2 x 3 times 3 x 2 product as a backend writes it, each part of which a test may change.
struct Gemm {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cudaDataType_t input = CUDA_R_32F;
  cudaDataType_t output = CUDA_R_32F;
  cudaDataType_t c_type = CUDA_R_32F;
  cublasOperation_t trans_a = CUBLAS_OP_T;
  std::int64_t ld = 3;             // of A and B
  std::int64_t result_ld = 2;      // of C and D
  std::int64_t result_stride = 0;  // between their batches; 0: one after the other
  std::int32_t batch = 1;
  std::uint64_t workspace_bytes = 0;
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment = 256;
  float beta = 0;

  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, c{}, d{};
  cublasLtMatmulPreferenceOpaque_t preference{};
  cublasLtMatmulHeuristicResult_t found{};

  cublasStatus_t prepare(cublasLtHandle_t handle) {
    cublasLtMatmulDescInit(&operation, compute, scale);
    cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a,
                                   sizeof trans_a);
    const std::int64_t stride = result_stride == 0 ? 2 * result_ld : result_stride;
    layout(a, input, 3, ld, 2 * ld);
    layout(b, input, 3, ld, 2 * ld);
    layout(c, c_type, 2, result_ld, stride);
    layout(d, output, 2, result_ld, stride);
    cublasLtMatmulPreferenceInit(&preference);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, &operation, &a, &b, &c, &d, &preference, 1,
                                          &found, &count);
  }

  cublasStatus_t run(cublasLtHandle_t handle, const void* pa, const void* pb, const void* pc,
                     void* pd, StreamId stream, void* workspace = nullptr) {
    const float alpha = 1;
    return cublasLtMatmul(handle, &operation, &alpha, pa, &a, pb, &b, &beta, pc, &c, pd, &d,
                          &found.algo, workspace, workspace_bytes, handle_of(stream));
  }

 private:
  void layout(cublasLtMatrixLayoutOpaque_t& descriptor, cudaDataType_t type, std::uint64_t rows,
              std::int64_t leading, std::int64_t stride) const {
    cublasLtMatrixLayoutInit(&descriptor, type, rows, 2, leading);
    cublasLtMatrixLayoutSetAttribute(&descriptor, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                     sizeof batch);
    cublasLtMatrixLayoutSetAttribute(&descriptor, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                     &stride, sizeof stride);
  }
  template <class Value>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  }
};

/// One rank with a handle, two streams and operands.
struct Bench {
  explicit Bench(Machine& of) : machine(of) { cublasLtCreate(&handle); }

  std::byte* buffer(const std::vector<float>& values, NumberFormat format = NumberFormat::f32) {
    const std::size_t bytes = values.size() * bytes_of(format);
    std::byte* data = machine.allocate(bytes, "matrix");
    machine.host_work({"fill", {}, {{data, bytes}}, 0, [&] {
                         for (std::size_t i = 0; i < values.size(); ++i) {
                           store(format, data, i, values[i]);
                         }
                       }});
    return data;
  }
  std::vector<float> read(const std::byte* data, std::size_t elements,
                          NumberFormat format = NumberFormat::f32) {
    machine.synchronise_device(0);
    std::vector<float> values;
    machine.host_work({"read", {{data, elements * bytes_of(format)}}, {}, 0, [&] {
                         for (std::size_t i = 0; i < elements; ++i) {
                           values.push_back(load(format, data, i));
                         }
                       }});
    return values;
  }

  Machine& machine;
  cublasLtHandle_t handle = nullptr;
  StreamId stream = machine.create_stream("stream");
  StreamId other = machine.create_stream("other");
  std::byte* a = buffer({1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0});
  std::byte* b = buffer({1, 0, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0});
  std::byte* d = machine.allocate(64, "d");
  std::byte* workspace = machine.allocate(1024, "workspace");
};

inline void expect_bench(Verdict::Kind kind, const std::function<void(Bench&)>& body,
                         const std::string& part = "") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Machine machine({seed});
    const Verdict verdict = machine.run(1, [&](std::int32_t) {
      Bench bench(machine);
      body(bench);
    });
    EXPECT_EQ(verdict.kind, kind) << verdict.message;
    EXPECT_THAT(verdict.message, testing::HasSubstr(part));
  }
}

}  // namespace commfuse::fake
