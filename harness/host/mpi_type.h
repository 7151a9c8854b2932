// SPDX-License-Identifier: Apache-2.0
// How MPI sees a view.
#pragma once

#include <mpi.h>

#include "suite/tensor.h"

namespace commfuse {

/// Owns a committed datatype; MPI_DATATYPE_NULL owns nothing.
class MpiType {
 public:
  explicit MpiType(MPI_Datatype type = MPI_DATATYPE_NULL) noexcept : type_(type) {}
  MpiType(MpiType&& other) noexcept;
  MpiType& operator=(MpiType&& other) noexcept;
  ~MpiType();
  [[nodiscard]] MPI_Datatype get() const noexcept { return type_; }

 private:
  MPI_Datatype type_;
};

/// MPI_FLOAT, or 16-bit words, which MPI cannot add by itself.
MPI_Datatype mpi_element(DType dtype);

/// One of these is a run of so many elements, more than an int counts.
MpiType make_run_type(std::int64_t elements, DType dtype);

/// One of these is the whole view, packed on the wire as a View is, however many elements it has.
/// Its origin is the view's first element; for a contiguous view its extent is its size.
MpiType make_view_type(const View& view, const Tensor& tensor);

}  // namespace commfuse
