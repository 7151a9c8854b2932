// SPDX-License-Identifier: Apache-2.0
// What the fake cuBLASLt keeps in the opaque descriptors of the library's header. A value begins
// with a mark, so that memory that was never made a descriptor is refused.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace commfuse::fake {

struct LayoutValue {
  static constexpr std::uint32_t kMark = 0x4c61796f;
  std::uint32_t mark = kMark;
  std::int32_t type = 0;  // cudaDataType_t
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::int64_t ld = 0;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::int32_t batch_count = 1;
  std::int64_t batch_stride = 0;  // elements
};

struct MatmulValue {
  static constexpr std::uint32_t kMark = 0x4d61746d;
  std::uint32_t mark = kMark;
  std::int32_t compute_type = 0;  // cublasComputeType_t
  std::int32_t scale_type = 0;    // cudaDataType_t
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t trans_a = CUBLAS_OP_N;
  std::int32_t trans_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t sm_count_target = 0;
};

struct PreferenceValue {
  static constexpr std::uint32_t kMark = 0x50726566;
  std::uint32_t mark = kMark;
  std::uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  std::uint64_t max_workspace_bytes = 0;
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};  // of A, B, C, D
};

struct AlgoValue {
  static constexpr std::uint32_t kMark = 0x416c676f;
  std::uint32_t mark = kMark;
  std::uint32_t tile = CUBLASLT_MATMUL_TILE_128x256;
  std::uint64_t problem = 0;          // of the problem that it was found for
  std::uint64_t workspace_bytes = 0;  // that it writes
  std::int32_t splits = 1;            // of K
  std::uint32_t reduction_scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  std::array<std::uint32_t, 4> alignments{};  // that it relies on
  std::int32_t out_of_place = 1;
};

/// Writes the value into a descriptor of the library's header.
template <class Value, class Opaque>
void put(const Value& value, Opaque& opaque) {
  static_assert(sizeof(Value) <= sizeof(Opaque) && std::is_trivially_copyable_v<Value>);
  std::memcpy(opaque.data, &value, sizeof value);
}

/// The value of a descriptor; nothing for null, and for what is no such descriptor.
template <class Value, class Opaque>
std::optional<Value> get(const Opaque* opaque) {
  Value value;
  if (opaque == nullptr) return std::nullopt;
  std::memcpy(&value, opaque->data, sizeof value);
  if (value.mark != Value::kMark) return std::nullopt;
  return value;
}

/// An attribute of the size that the library expects.
template <class Field>
cublasStatus_t set_field(Field& field, const void* buffer, std::size_t bytes) {
  if (buffer == nullptr || bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, buffer, sizeof field);
  return CUBLAS_STATUS_SUCCESS;
}

/// With `bytes` 0, only how many bytes there are.
template <class Field>
cublasStatus_t get_field(const Field& field, void* buffer, std::size_t bytes,
                         std::size_t* written) {
  if (bytes == 0 && written == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes > 0 && (buffer == nullptr || bytes != sizeof field)) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes > 0) std::memcpy(buffer, &field, sizeof field);
  if (written != nullptr) *written = sizeof field;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace commfuse::fake
