// SPDX-License-Identifier: Apache-2.0
// What stands below a table: what its columns mean, and what to know of its rows as a whole.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace commfuse {

/// Of a table, what its records do not tell.
struct ShownColumns {
  std::vector<std::string> zero;  // losses that are 0 in every row, and hidden
  bool over_best = false;         // the speed-up over the best baseline
};

/// Begins with an empty line, unless there is nothing to say.
std::string table_legend(std::span<const Record> records, const ShownColumns& shown);

}  // namespace commfuse
