// SPDX-License-Identifier: Apache-2.0
#include "harness/host/mpi_type.h"

#include <array>
#include <utility>

#include "harness/world/mpi_error.h"

namespace commfuse {
namespace {

/// `count` blocks of `of`, `stride_bytes` apart. Counts of a view fit an int; its elements need
/// not.
MpiType repeat(const MpiType& of, std::int32_t count, std::int64_t stride_bytes) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  CFB_MPI(MPI_Type_create_hvector(count, 1, static_cast<MPI_Aint>(stride_bytes), of.get(), &type));
  return MpiType(type);
}

}  // namespace

MpiType::MpiType(MpiType&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}

MpiType& MpiType::operator=(MpiType&& other) noexcept {
  std::swap(type_, other.type_);
  return *this;
}

MpiType::~MpiType() {
  if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
}

MPI_Datatype mpi_element(DType dtype) { return is_narrow(dtype) ? MPI_UINT16_T : MPI_FLOAT; }

MpiType make_run_type(std::int64_t elements, DType dtype) {
  constexpr int kPart = 1 << 30;
  const MPI_Datatype element = mpi_element(dtype);
  MPI_Datatype part = MPI_DATATYPE_NULL;
  CFB_MPI(MPI_Type_contiguous(kPart, element, &part));
  const MpiType parts(part);
  const std::array<int, 2> counts{static_cast<int>(elements / kPart),
                                  static_cast<int>(elements % kPart)};
  const std::array<MPI_Aint, 2> offsets{
      0, static_cast<MPI_Aint>(elements / kPart * kPart * bytes_of(dtype))};
  const std::array<MPI_Datatype, 2> types{part, element};
  MPI_Datatype run = MPI_DATATYPE_NULL;
  CFB_MPI(MPI_Type_create_struct(2, counts.data(), offsets.data(), types.data(), &run));
  MpiType whole(run);
  CFB_MPI(MPI_Type_commit(&run));
  return whole;
}

MpiType make_view_type(const View& view, const Tensor& tensor) {
  const std::int64_t element_bytes = bytes_of(tensor.dtype);
  const std::int64_t pitch = tensor.cols * element_bytes;
  MPI_Datatype row = MPI_DATATYPE_NULL;
  CFB_MPI(MPI_Type_contiguous(view.cols, mpi_element(tensor.dtype), &row));
  const MpiType strip = repeat(MpiType(row), view.rows, pitch);
  MpiType whole = repeat(strip, view.strips, view.row_step * pitch + view.col_step * element_bytes);
  MPI_Datatype committed = whole.get();
  CFB_MPI(MPI_Type_commit(&committed));
  return whole;
}

}  // namespace commfuse
