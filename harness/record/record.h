// SPDX-License-Identifier: Apache-2.0
// One JSON object per case (DESIGN section 8). Written once per case and flushed; readers reject an
// unknown schema.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace commfuse {

constexpr int kRecordSchema = 1;

enum class Outcome : std::uint8_t { ok, skipped, wrong, failed };
std::string_view name_of(Outcome outcome);

enum class Clock : std::uint8_t { wall, replayed, modelled };
std::string_view name_of(Clock clock);

struct CheckReport {
  std::int64_t compared = 0;
  std::int64_t wrong = 0;
  std::string first_wrong;  // "rank 1 result[3, 17]: got 4, want 5"
  double max_abs = 0;
  double max_rel = 0;
  bool bitwise = false;  // every compared element equal, bit for bit, to the rounded float64 answer
  std::string bound;     // which comparison was used: "exact" or "float64 within <formula>"
};

struct Samples {
  std::string unit = "ns";
  std::vector<double> max_over_ranks;
  std::vector<std::vector<double>> per_rank;
};

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
      metrics;  // names of DESIGN section 8; undefined ones are absent, never null
  nlohmann::ordered_json details;  // notes that are not metrics: seed, order, converged,
                                   // distribution, per-rank medians
  nlohmann::ordered_json environment;
  std::string time;  // ISO 8601, UTC, start of the case
};

nlohmann::ordered_json to_json(const Record& record);
/// Throws std::runtime_error naming the field, or the schema that it does not know.
Record record_from_json(const nlohmann::json& object);

/// Appends records to a JSON Lines file, one write and flush each. A file that exists is never
/// overwritten: opening one throws UsageError unless `resume`, which keeps what is there (a torn
/// last line is cut off). Errors of writing throw.
class RecordWriter {
 public:
  RecordWriter(const std::filesystem::path& path, bool resume);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void write(const Record& record);
  /// Ids already in the file when it was opened for resuming.
  [[nodiscard]] const std::vector<std::string>& finished() const { return finished_; }

 private:
  int file_ = -1;
  std::filesystem::path path_;
  std::vector<std::string> finished_;
};

/// Reads a whole file; a torn last line is reported in `warning`, any other bad line throws with
/// file and line number.
std::vector<Record> read_records(const std::filesystem::path& path, std::string* warning = nullptr);

}  // namespace commfuse
