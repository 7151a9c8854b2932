// SPDX-License-Identifier: Apache-2.0
// What must be equal where a difference in time is to be blamed on what is compared.
#pragma once

#include <map>
#include <string>

#include "harness/record/record.h"

namespace commfuse {

/// Facts of the environment that change times, by their path in the record ("libraries.blas"), as
/// text. Left out is what may change between launches (load), between machines of one kind (host
/// names), and what a comparison is about (commit and version).
std::map<std::string, std::string> fingerprint(const Record& record);

}  // namespace commfuse
