// SPDX-License-Identifier: Apache-2.0
// A Gemm as products of plain matrices. Plain C++.
//
// Strips are a batch where they have one height and one distance in A, B, C and D; else every
// stretch of rows that is unbroken in all of them is a product of its own. Strips that touch are
// one.
#pragma once

#include <string>
#include <vector>

#include "harness/cuda/device_storage.h"
#include "harness/cuda/matmul.h"
#include "suite/compute.h"

namespace commfuse {

/// Why the dtypes of the op's tensors do not go together ("a bf16 and b fp32"); empty if they do.
std::string unsupported_dtypes(const Gemm& op, const DeviceStorage& storage);

/// Empty where D is. The op's shapes fit (misfit()) and its dtypes are supported.
std::vector<Matmul> matmuls_of(const Gemm& op, const DeviceStorage& storage);

}  // namespace commfuse
