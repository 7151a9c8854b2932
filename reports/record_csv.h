// SPDX-License-Identifier: Apache-2.0
// Records as comma-separated values (RFC 4180), for spreadsheets and scripts.
#pragma once

#include <span>
#include <string>

#include "harness/record/record.h"

namespace commfuse {

/// A header line, then a line for each record, also those without a speed: schema, id, what was
/// selected, outcome and reason, then every metric that a record has, with its unit in the header
/// ("exposed [ns]"), sorted; one that is undefined is empty. A metric that has two units in these
/// records has a column for each. Lines end in "\n".
std::string record_csv(std::span<const Record> records);

}  // namespace commfuse
