// SPDX-License-Identifier: Apache-2.0
// One JSON object per case. Written once per case; readers reject an unknown schema.
// docs/metrics.md derives the numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace commfuse {

constexpr int kRecordSchema = 1;

constexpr std::size_t kLongestId = 1024;  // bytes; what trackers of benchmark names accept

enum class Outcome : std::uint8_t { ok, skipped, wrong, failed };
std::string_view name_of(Outcome outcome);

enum class Clock : std::uint8_t { wall, replayed, modelled };
std::string_view name_of(Clock clock);

struct CheckReport {
  std::int64_t compared = 0;
  std::int64_t wrong = 0;
  std::string first_wrong;  // "rank 1 result[3, 17]: got 4, want 5"
  double max_abs = 0;  // infinite where a compared element was not finite; absent in the file then
  double max_rel = 0;
  bool bitwise = false;  // every compared element equal, bit for bit, to the rounded float64 answer
  std::string bound;     // which comparison was used: "exact" or "float64 within <formula>"
};

/// Every iteration that was sampled, in the order of sampling.
struct Samples {
  std::string unit = "ns";
  std::vector<double> max_over_ranks;
  std::vector<std::vector<double>> per_rank;  // [rank][iteration]
};

/// Units: "ns", "share" (1 is 100 %), "ratio", "TFLOP/s" (1e12 per second), "B/s", "tokens/s".
struct Metric {
  double value = 0;
  std::string unit;
};

struct Record {
  std::string id;  // stable identity: resolved parameters, global sizes, transport, link as
                   // requested, pass; at most 1024 bytes
  std::string workload;
  std::string impl;
  nlohmann::ordered_json shape;
  std::int32_t ranks = 1;
  std::string mesh;  // "tp=2,dp=2 on tp"; empty for a single group
  std::string dtype;
  std::string pass = "forward";
  std::string backend;
  std::string transport;
  std::string link;  // as requested
  std::string mode;  // isolated, steady
  Clock clock = Clock::wall;
  Outcome outcome = Outcome::ok;
  std::string reason;  // why skipped, wrong or failed
  std::optional<CheckReport> check;
  Samples samples;
  std::map<std::string, Metric>
      metrics;  // names of docs/metrics.md; undefined ones are absent, never null
  nlohmann::ordered_json details;  // notes that are not metrics: seed, order, converged,
                                   // distribution, per-rank medians
  nlohmann::ordered_json environment;
  std::string time;  // ISO 8601, UTC, start of the case
};

/// Fields in one fixed order. Holds no NaN or infinity: a metric that is not finite is left out, as
/// is such a member of shape, details or environment. Throws std::invalid_argument for a sample
/// that is not finite and for an id that is empty or too long.
nlohmann::ordered_json to_json(const Record& record);
/// Throws std::runtime_error naming the field that is missing or ill-typed, or the schema that it
/// does not know.
Record record_from_json(const nlohmann::ordered_json& object);
/// The part of a record that ranks exchange on its own. Throws as record_from_json.
nlohmann::ordered_json to_json(const CheckReport& check);
CheckReport check_from_json(const nlohmann::ordered_json& object);
/// One line of a record file, without its newline. Bytes that are not UTF-8 are replaced.
std::string to_line(const Record& record);

/// The file cannot be used as asked: it exists, cannot be opened, or holds something else. The
/// message begins with its path.
class RecordFileError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Appends records to a JSON Lines file, each with one write(2). A file that exists is never
/// overwritten: opening one throws RecordFileError unless `resume`, which keeps what is there and
/// cuts a torn last line off. While it is open no other writer can open it.
class RecordWriter {
 public:
  RecordWriter(const std::filesystem::path& path, bool resume);
  /// Removes the file if it was made here and received no record.
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  /// Throws std::runtime_error with path and reason (disk full, input or output error), after
  /// cutting off what was written of the record.
  void write(const Record& record);
  /// What the file had when it was opened and need not run again: ok, skipped or wrong. A failed
  /// case is run again.
  struct Finished {
    std::string id;
    Outcome outcome = Outcome::ok;
    bool timed = false;
  };
  [[nodiscard]] const std::vector<Finished>& finished() const { return finished_; }

 private:
  void lock() const;
  void resume_from_contents();

  int file_ = -1;
  bool created_ = false;
  std::filesystem::path path_;
  std::vector<Finished> finished_;
};

/// Reads a whole file. A record that failed or was not timed is left out where a later one of the
/// same id follows, as a resumed run writes it. A torn last line is reported in `warning`; a file
/// that cannot be read and any other bad line throw RecordFileError, the latter with its line
/// number; so does a second record of one case.
std::vector<Record> read_records(const std::filesystem::path& path, std::string* warning = nullptr);

}  // namespace commfuse
