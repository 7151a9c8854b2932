// SPDX-License-Identifier: Apache-2.0
#include "reports/launch_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace commfuse {
namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".jsonl") files.push_back(entry->path());
  }
  if (error) throw RecordFileError(fmt::format("{}: {}", path.string(), error.message()));
  if (files.empty()) throw RecordFileError(fmt::format("{}: has no file *.jsonl", path.string()));
  std::ranges::sort(files);
  return files;
}

}  // namespace

Launches read_launches(const std::filesystem::path& path) {
  Launches launches;
  for (const std::filesystem::path& file : files_of(path)) {
    std::string warning;
    for (Record& record : read_records(file, &warning)) {
      std::string id = record.id;
      launches.rows[std::move(id)].push_back(std::move(record));
    }
    if (!warning.empty()) launches.warnings.push_back(std::move(warning));
    ++launches.count;
  }
  return launches;
}

}  // namespace commfuse
