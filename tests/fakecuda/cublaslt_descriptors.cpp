// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's functions for descriptors: of operations, of matrices, of preferences.
#include <cublasLt.h>

#include <new>

#include "tests/fakecuda/cublaslt_values.h"

namespace commfuse::fake {
namespace {

template <class Value, class Opaque>
cublasStatus_t create(const Value& value, Opaque** descriptor) {
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *descriptor = new Opaque{};
  put(value, **descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Value, class Opaque>
cublasStatus_t init(const Value& value, Opaque* descriptor, std::size_t bytes) {
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes < sizeof *descriptor) return CUBLAS_STATUS_ALLOC_FAILED;
  put(value, *descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

/// Wipes the mark, for whoever keeps the address.
template <class Opaque>
cublasStatus_t destroy(Opaque* descriptor) {
  if (descriptor != nullptr) descriptor->data[0] = 0;
  delete descriptor;
  return CUBLAS_STATUS_SUCCESS;
}

/// Changes a descriptor by `change(value)`, if that succeeds.
template <class Value, class Opaque, class Change>
cublasStatus_t change(Opaque* descriptor, Change change) {
  std::optional<Value> value = get<Value>(descriptor);
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = change(*value);
  if (status == CUBLAS_STATUS_SUCCESS) put(*value, *descriptor);
  return status;
}

MatmulValue matmul_value(cublasComputeType_t compute_type, cudaDataType_t scale_type) {
  MatmulValue value;
  value.compute_type = compute_type;
  value.scale_type = scale_type;
  return value;
}

LayoutValue layout_value(cudaDataType type, std::uint64_t rows, std::uint64_t cols,
                         std::int64_t ld) {
  LayoutValue value;
  value.type = type;
  value.rows = rows;
  value.cols = cols;
  value.ld = ld;
  return value;
}

cublasStatus_t set(MatmulValue& value, cublasLtMatmulDescAttributes_t attribute, const void* buffer,
                   std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return set_field(value.compute_type, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return set_field(value.scale_type, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return set_field(value.pointer_mode, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set_field(value.trans_a, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set_field(value.trans_b, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set_field(value.epilogue, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return set_field(value.sm_count_target, buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;  // by the fake
  }
}

cublasStatus_t set(LayoutValue& value, cublasLtMatrixLayoutAttribute_t attribute,
                   const void* buffer, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return set_field(value.type, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return set_field(value.order, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return set_field(value.rows, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return set_field(value.cols, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return set_field(value.ld, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set_field(value.batch_count, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set_field(value.batch_stride, buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;  // by the fake
  }
}

cublasStatus_t set(PreferenceValue& value, cublasLtMatmulPreferenceAttributes_t attribute,
                   const void* buffer, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return set_field(value.search_mode, buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set_field(value.max_workspace_bytes, buffer, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set_field(value.reduction_schemes, buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set_field(value.alignments.at(static_cast<std::size_t>(
                           attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)),
                       buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;  // by the fake
  }
}

}  // namespace
}  // namespace commfuse::fake

using namespace commfuse::fake;

extern "C" {

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t descriptor, size_t bytes,
                                               cublasComputeType_t compute_type,
                                               cudaDataType_t scale_type) {
  return init(matmul_value(compute_type, scale_type), descriptor, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor,
                                        cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  return create(matmul_value(compute_type, scale_type), descriptor);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  return destroy(descriptor);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* buffer, size_t bytes) {
  return change<MatmulValue>(
      descriptor, [&](MatmulValue& value) { return set(value, attribute, buffer, bytes); });
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t bytes,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld) {
  return init(layout_value(type, rows, cols, ld), layout, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  return create(layout_value(type, rows, cols, ld), layout);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* buffer, size_t bytes) {
  return change<LayoutValue>(
      layout, [&](LayoutValue& value) { return set(value, attribute, buffer, bytes); });
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t bytes) {
  return init(PreferenceValue{}, preference, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(PreferenceValue{}, preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* buffer, size_t bytes) {
  return change<PreferenceValue>(
      preference, [&](PreferenceValue& value) { return set(value, attribute, buffer, bytes); });
}

}  // extern "C"
