// SPDX-License-Identifier: Apache-2.0
// The form of each CUPTI activity record that this toolkit writes: the one place to change when a
// toolkit adds fields.
#pragma once

#include <cupti.h>

namespace commfuse {

static_assert(CUPTI_API_VERSION >= 130000, "the records of an older CUPTI are not described here");
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using MemsetRecord = CUpti_ActivityMemset4;
using ApiRecord = CUpti_ActivityAPI;
using ExternalRecord = CUpti_ActivityExternalCorrelation;

}  // namespace commfuse
