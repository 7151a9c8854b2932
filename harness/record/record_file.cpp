// SPDX-License-Identifier: Apache-2.0
// Record files on disk: appending with one write(2) a record, resuming, reading.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/record/record.h"

namespace commfuse {
namespace {

std::string reason_of(int error) { return std::generic_category().message(error); }

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view reason) {
  throw RecordFileError(fmt::format("{}: {}", path.string(), reason));
}

struct stat status_of(int file, const std::filesystem::path& path) {
  struct stat status {};
  if (fstat(file, &status) != 0) refuse(path, reason_of(errno));
  return status;
}

std::string contents_of(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse(path, "is a directory");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) refuse(path, reason_of(errno));
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) refuse(path, "cannot be read");
  return text;
}

struct Lines {
  std::vector<Record> records;
  std::vector<std::size_t> numbers;  // of their lines, from 1
  std::size_t intact_bytes = 0;      // up to the end of the last whole record
  bool newline_missing = false;      // the last record is whole, but lacks its newline
};

/// Whether a torn line can be what a write left: a file of something else must not be cut.
bool begins_a_record(std::string_view line) {
  constexpr std::string_view kStart = "{\"schema\":";
  return line.substr(0, kStart.size()) == kStart.substr(0, line.size());
}

/// Only the last line can be torn: what a write left there has no newline.
Lines parse_lines(const std::string& text, const std::filesystem::path& path) {
  Lines lines;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    ++number;
    const std::size_t newline = text.find('\n', begin);
    const bool ends = newline != std::string::npos;
    const std::size_t end = ends ? newline : text.size();
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = ends ? end + 1 : end;
    if (!line.empty()) {
      const auto object = nlohmann::ordered_json::parse(line, nullptr, false);
      if (object.is_discarded() && !ends && begins_a_record(line)) return lines;
      if (object.is_discarded()) refuse(path, fmt::format("line {} is not JSON", number));
      try {
        lines.records.push_back(record_from_json(object));
        lines.numbers.push_back(number);
      } catch (const std::runtime_error& error) {
        refuse(path, fmt::format("line {}: {}", number, error.what()));
      }
    }
    lines.intact_bytes = begin;
    lines.newline_missing = !ends;
  }
  return lines;
}

/// Whether a resumed run makes another record of the case: of one that failed, or was only checked.
bool is_run_again(const Record& record) {
  return record.outcome == Outcome::failed || record.samples.max_over_ranks.empty();
}

/// Writes all or nothing: cuts the file back to its length if the bytes do not fit. More than one
/// write(2) is needed only where the disk fills up, and there it tells the reason.
void append(int file, std::string_view bytes, const std::filesystem::path& path) {
  const off_t length = status_of(file, path).st_size;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const std::string reason = written < 0 ? reason_of(errno) : "nothing could be written";
      const bool whole = ftruncate(file, length) == 0;
      throw std::runtime_error(fmt::format("{}: record not written: {}{}", path.string(), reason,
                                           whole ? "" : "; the last line of the file is torn"));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

RecordWriter::RecordWriter(const std::filesystem::path& path, bool resume) : path_(path) {
  constexpr int kFlags = O_RDWR | O_APPEND | O_CLOEXEC;
  constexpr mode_t kMode = 0666;
  file_ = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, kMode);
  created_ = file_ >= 0;
  if (!created_ && errno == EEXIST) {
    if (!resume) refuse(path, "exists already; name another file, or go on with --resume");
    file_ = ::open(path.c_str(), kFlags);
  }
  if (file_ < 0) refuse(path, reason_of(errno));
  try {
    if (!S_ISREG(status_of(file_, path).st_mode)) refuse(path, "is not a regular file");
    lock();
    if (!created_) resume_from_contents();
  } catch (...) {
    ::close(file_);
    throw;
  }
}

RecordWriter::~RecordWriter() {
  struct stat status {};
  if (created_ && fstat(file_, &status) == 0 && status.st_size == 0) ::unlink(path_.c_str());
  ::close(file_);
}

void RecordWriter::lock() const {
  // Network file systems may lack locks; nothing but this protection is lost there.
  if (flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    refuse(path_, "is being written by another process");
  }
}

void RecordWriter::resume_from_contents() {
  const Lines lines = parse_lines(contents_of(path_), path_);
  if (ftruncate(file_, static_cast<off_t>(lines.intact_bytes)) != 0) {
    refuse(path_, reason_of(errno));
  }
  if (lines.newline_missing) append(file_, "\n", path_);
  std::set<std::string, std::less<>> seen;
  for (const Record& record : lines.records) {
    if (record.outcome != Outcome::failed && seen.insert(record.id).second) {
      finished_.push_back({record.id, record.outcome, !record.samples.max_over_ranks.empty()});
    }
  }
}

void RecordWriter::write(const Record& record) { append(file_, to_line(record) + '\n', path_); }

std::vector<Record> read_records(const std::filesystem::path& path, std::string* warning) {
  const std::string text = contents_of(path);
  Lines lines = parse_lines(text, path);
  if (warning != nullptr) {
    *warning = lines.intact_bytes == text.size()
                   ? ""
                   : fmt::format("{}: the last line is torn and was left out", path.string());
  }
  std::map<std::string_view, std::size_t> last;  // place of an id's last record so far
  std::vector<bool> superseded(lines.records.size());
  for (std::size_t i = 0; i < lines.records.size(); ++i) {
    const auto [before, first] = last.emplace(lines.records[i].id, i);
    if (first) continue;
    if (!is_run_again(lines.records[before->second])) {
      refuse(path, fmt::format("line {}: has the id of line {} again: {}", lines.numbers[i],
                               lines.numbers[before->second], lines.records[i].id));
    }
    superseded[std::exchange(before->second, i)] = true;
  }
  std::vector<Record> kept;
  for (std::size_t i = 0; i < lines.records.size(); ++i) {
    if (!superseded[i]) kept.push_back(std::move(lines.records[i]));
  }
  return kept;
}

}  // namespace commfuse
