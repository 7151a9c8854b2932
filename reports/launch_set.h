// SPDX-License-Identifier: Apache-2.0
// The records of several launches of one thing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace commfuse {

/// A row as it came out of each launch that has it.
using LaunchedRow = std::vector<Record>;

struct Launches {
  std::size_t count = 0;
  std::map<std::string, LaunchedRow> rows;  // by id
  std::vector<std::string> warnings;        // lines of files that were torn and left out
};

/// A file is one launch; of a folder, each file *.jsonl in it. Throws RecordFileError where a file
/// cannot be read or is no record file, and where a folder has none.
Launches read_launches(const std::filesystem::path& path);

}  // namespace commfuse
