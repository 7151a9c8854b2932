// SPDX-License-Identifier: Apache-2.0
// The comparison table of records: one row per record, only the columns that vary,
// the check's outcome in every row, a time only where the check passed.
#pragma once

#include <span>
#include <string>

#include "harness/record/record.h"

namespace commfuse {

enum class TableForm : std::uint8_t { text, markdown };

/// What does not vary stands once above the table.
std::string comparison_table(std::span<const Record> records, TableForm form = TableForm::text);

}  // namespace commfuse
