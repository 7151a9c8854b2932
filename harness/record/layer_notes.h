// SPDX-License-Identifier: Apache-2.0
// What a table says about rows that are a whole layer. Of all rows given, those count that have
// their metrics.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "harness/record/row_identity.h"

namespace commfuse {

/// "extrapolated to the 32 layers of llama3-8b: 1.96 s, 522 tokens/s (commfuse:m=2)": of the
/// fastest schedule. `rows` are comparable and have a time. Empty where there is no such model.
std::string extrapolation_note(std::span<const Record* const> rows,
                               const ImplementationNames& names);

/// Sentences on mfu, on tokens and on what an extrapolation leaves out, as far as rows have them.
std::vector<std::string> layer_legend(std::span<const Record* const> rows);

}  // namespace commfuse
