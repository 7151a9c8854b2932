// SPDX-License-Identifier: Apache-2.0
// Matmuls by cuBLASLt on one stream, each by the algorithm that was chosen for it beforehand.
//
// cuBLASLt is column major, so it is asked for D^T = op(B)^T op(A)^T: a row-major matrix is its
// transpose there, with the pitch as leading dimension.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <map>
#include <memory>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/gemm_settings.h"
#include "harness/cuda/matmul.h"
#include "harness/cuda/matmul_key.h"

namespace commfuse {

class MatmulRunner {
 public:
  /// On the current device. `stream` outlives this; the workspace is the stream's own, since two
  /// products that share one may not run at the same time.
  MatmulRunner(const GemmSettings& settings, cudaStream_t stream);
  ~MatmulRunner();
  MatmulRunner(const MatmulRunner&) = delete;
  MatmulRunner& operator=(const MatmulRunner&) = delete;

  /// Chooses an algorithm unless there is one. Throws Unsupported with shape and dtype where
  /// cuBLASLt has none.
  void prepare(const Matmul& matmul);
  /// Enqueues it. Throws std::logic_error if nothing like it was prepared.
  void run(const Matmul& matmul);
  /// How often its tiles fill the multiprocessors that it may use, as cuBLASLt estimates. Throws as
  /// run().
  [[nodiscard]] float waves(const Matmul& matmul) const;

 private:
  struct Chosen;

  [[nodiscard]] Chosen choose(const MatmulKey& key) const;
  [[nodiscard]] const Chosen& chosen(const Matmul& matmul) const;

  struct DestroyHandle {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  };
  GemmSettings settings_;
  std::int32_t sm_target_ = 0;  // 0: none
  cudaStream_t stream_;
  DeviceMemory workspace_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, DestroyHandle> handle_;
  std::map<MatmulKey, Chosen> chosen_;
};

}  // namespace commfuse
