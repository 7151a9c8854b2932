// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/case.h"
#include "harness/record/record.h"

namespace commfuse {

/// What a record says of its case before anything has run: identity, shape, arrangement, controls.
Record record_of(const CaseGroup& group, const CaseRow& row);

}  // namespace commfuse
