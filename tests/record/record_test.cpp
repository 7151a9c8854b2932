// SPDX-License-Identifier: Apache-2.0
#include "harness/record/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/record/golden_file.h"
#include "tests/record/sample_records.h"

namespace commfuse {
namespace {

using nlohmann::ordered_json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Record sample() { return test::comparison_records()[3]; }

/// What reading says about a record with one field replaced, or removed where `value` is discarded.
std::string complaint(const std::string& pointer, const ordered_json& value) {
  ordered_json object = to_json(sample());
  const ordered_json::json_pointer at(pointer);
  if (value.is_discarded()) {
    object[at.parent_pointer()].erase(at.back());
  } else {
    object[at] = value;
  }
  try {
    record_from_json(object);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

std::string complaint_without(const std::string& pointer) {
  return complaint(pointer, ordered_json(ordered_json::value_t::discarded));
}

void expect_golden_lines(const std::string& name, const std::vector<Record>& records) {
  std::string lines;
  for (const Record& record : records) lines += to_line(record) + '\n';
  test::expect_golden(name, lines);
}

TEST(RecordJson, GoldenRecordsOfEveryOutcome) {
  expect_golden_lines("record.jsonl", test::outcome_records());
}
TEST(RecordJson, GoldenRecordsOfTheTables) {
  expect_golden_lines("comparison.jsonl", test::comparison_records());
  expect_golden_lines("layer.jsonl", test::layer_records());
  expect_golden_lines("sweep.jsonl", test::sweep_records());
}

TEST(RecordJson, ReadsWhatItWrites) {
  for (const Record& record : test::outcome_records()) {
    const ordered_json written = to_json(record);
    EXPECT_EQ(to_json(record_from_json(written)).dump(), written.dump());
    EXPECT_EQ(to_line(record_from_json(ordered_json::parse(to_line(record)))), to_line(record));
  }
}

TEST(RecordJson, KeepsEveryField) {
  Record record = sample();
  record.mesh = "tp=2,dp=2 on tp";
  record.pass = "backward";
  record.mode = "steady";
  record.clock = Clock::modelled;
  record.outcome = Outcome::wrong;
  record.reason = "line one\nline \"two\"";
  record.check = CheckReport{10, 2, "rank 0 c[1, 2]: got 1, want 2", 0.5, 0.25, true, "exact"};
  record.details = {{"z", 1}, {"a", {{"y", 2}, {"b", {1, 2}}}}};
  const Record read = record_from_json(to_json(record));
  EXPECT_EQ(read.id, record.id);
  EXPECT_EQ(read.workload, record.workload);
  EXPECT_EQ(read.impl, record.impl);
  EXPECT_EQ(read.shape.dump(), record.shape.dump());
  EXPECT_EQ(read.ranks, record.ranks);
  EXPECT_EQ(read.mesh, record.mesh);
  EXPECT_EQ(read.dtype, record.dtype);
  EXPECT_EQ(read.pass, record.pass);
  EXPECT_EQ(read.backend, record.backend);
  EXPECT_EQ(read.transport, record.transport);
  EXPECT_EQ(read.link, record.link);
  EXPECT_EQ(read.mode, record.mode);
  EXPECT_EQ(read.clock, record.clock);
  EXPECT_EQ(read.outcome, record.outcome);
  EXPECT_EQ(read.reason, record.reason);
  ASSERT_TRUE(read.check.has_value());
  EXPECT_EQ(read.check->compared, 10);
  EXPECT_EQ(read.check->wrong, 2);
  EXPECT_EQ(read.check->first_wrong, record.check->first_wrong);
  EXPECT_EQ(read.check->max_abs, 0.5);
  EXPECT_EQ(read.check->max_rel, 0.25);
  EXPECT_TRUE(read.check->bitwise);
  EXPECT_EQ(read.check->bound, "exact");
  EXPECT_EQ(read.samples.unit, record.samples.unit);
  EXPECT_EQ(read.samples.max_over_ranks, record.samples.max_over_ranks);
  EXPECT_EQ(read.samples.per_rank, record.samples.per_rank);
  ASSERT_EQ(read.metrics.size(), record.metrics.size());
  for (const auto& [name, metric] : record.metrics) {
    EXPECT_EQ(read.metrics.at(name).value, metric.value) << name;
    EXPECT_EQ(read.metrics.at(name).unit, metric.unit) << name;
  }
  EXPECT_EQ(read.details.dump(), record.details.dump());  // order kept
  EXPECT_EQ(read.environment.dump(), record.environment.dump());
  EXPECT_EQ(read.time, record.time);
}

TEST(RecordJson, ChecksTravelOnTheirOwn) {
  const CheckReport check{10, 2, "rank 0 c[1, 2]: got 1, want 2", 0.5, kInfinity, false, "exact"};
  const CheckReport read = check_from_json(ordered_json::parse(to_json(check).dump()));
  EXPECT_EQ(read.wrong, 2);
  EXPECT_EQ(read.first_wrong, check.first_wrong);
  EXPECT_EQ(read.max_abs, 0.5);
  EXPECT_TRUE(std::isinf(read.max_rel));
  EXPECT_THROW(check_from_json(ordered_json::object()), std::runtime_error);
}

TEST(RecordJson, EveryOutcomeAndClockHasItsName) {
  for (const auto& [outcome, name] : {std::pair{Outcome::ok, "ok"},
                                      {Outcome::skipped, "skipped"},
                                      {Outcome::wrong, "wrong"},
                                      {Outcome::failed, "failed"}}) {
    EXPECT_EQ(name_of(outcome), name);
    Record record = sample();
    record.outcome = outcome;
    EXPECT_EQ(record_from_json(to_json(record)).outcome, outcome);
  }
  for (const auto& [clock, name] : {std::pair{Clock::wall, "wall"},
                                    {Clock::replayed, "replayed"},
                                    {Clock::modelled, "modelled"}}) {
    EXPECT_EQ(name_of(clock), name);
    Record record = sample();
    record.clock = clock;
    EXPECT_EQ(record_from_json(to_json(record)).clock, clock);
  }
}

TEST(RecordJson, DefaultsAreReadable) {
  Record record;
  record.id = "x";
  const Record read = record_from_json(to_json(record));
  EXPECT_TRUE(read.shape.is_object());
  EXPECT_FALSE(read.check.has_value());
}

TEST(RecordJson, HoldsNoNanOrInfinity) {
  Record record = sample();
  record.metrics["mfu"] = {kNan, "share"};
  record.metrics["busbw"] = {kInfinity, "B/s"};
  record.check->max_abs = kInfinity;
  record.check->max_rel = kNan;
  record.details = {{"bad", kNan}, {"list", {1.5, kInfinity}}, {"deep", {{"bad", -kInfinity}}}};
  record.environment = {{"load", kNan}};
  const std::string line = to_line(record);
  EXPECT_EQ(line.find("nan"), std::string::npos);
  EXPECT_EQ(line.find("inf"), std::string::npos);
  const ordered_json object = ordered_json::parse(line);
  EXPECT_FALSE(object.at("metrics").contains("mfu"));
  EXPECT_FALSE(object.at("metrics").contains("busbw"));
  EXPECT_FALSE(object.at("check").contains("max_abs"));
  EXPECT_EQ(object.at("details").dump(), R"({"list":[1.5,null],"deep":{}})");
  EXPECT_EQ(object.at("environment").dump(), "{}");
  EXPECT_TRUE(std::isinf(record_from_json(object).check->max_abs));
}

TEST(RecordJson, RefusesSamplesThatAreNoNumbers) {
  Record record = sample();
  record.samples.max_over_ranks[2] = kNan;
  EXPECT_THROW(to_json(record), std::invalid_argument);
  record = sample();
  record.samples.per_rank[1][0] = kInfinity;
  EXPECT_THROW(to_json(record), std::invalid_argument);
}

TEST(RecordJson, RefusesIdsThatTrackersCannotTake) {
  Record record = sample();
  record.id = std::string(kLongestId, 'x');
  EXPECT_NO_THROW(to_json(record));
  record.id += 'x';
  EXPECT_THROW(to_json(record), std::invalid_argument);
  record.id.clear();
  EXPECT_THROW(to_json(record), std::invalid_argument);
}

TEST(RecordJson, QuotesStringsAndReplacesBytesThatAreNoText) {
  Record record = sample();
  record.reason = "a \"quote\", a \\, a\ttab, \xff a byte";
  const std::string line = to_line(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(ordered_json::parse(line).at("reason"),
            "a \"quote\", a \\, a\ttab, \xEF\xBF\xBD a byte");
}

TEST(RecordJson, case_A1_rejects_an_unknown_schema) {
  EXPECT_EQ(complaint("/schema", 2), "unknown record schema 2; this program reads schema 1");
  EXPECT_EQ(complaint("/schema", "1"), "field 'schema' is not an integer");
  EXPECT_EQ(complaint_without("/schema"), "field 'schema' is missing");
}

TEST(RecordJson, NamesTheFieldThatIsMissing) {
  const ordered_json object = to_json(sample());
  for (const auto& [name, value] : object.items()) {
    if (name == "check") continue;  // a row need not have one
    EXPECT_EQ(complaint_without("/" + name), "field '" + name + "' is missing");
  }
  EXPECT_EQ(complaint_without("/check/bound"), "field 'check.bound' is missing");
  EXPECT_EQ(complaint_without("/samples/per_rank"), "field 'samples.per_rank' is missing");
  EXPECT_EQ(complaint_without("/metrics/time/unit"), "field 'metrics.time.unit' is missing");
}

TEST(RecordJson, NamesTheFieldThatIsIllTyped) {
  EXPECT_EQ(complaint("/workload", 3), "field 'workload' is not a string");
  EXPECT_EQ(complaint("/ranks", "two"), "field 'ranks' is not an integer");
  EXPECT_EQ(complaint("/ranks", 0), "field 'ranks' is 0, must be positive");
  EXPECT_EQ(complaint("/shape", ordered_json::array()), "field 'shape' is no object");
  EXPECT_EQ(complaint("/clock", "sundial"),
            "field 'clock' is 'sundial', valid are wall, replayed, modelled");
  EXPECT_EQ(complaint("/outcome", "good"),
            "field 'outcome' is 'good', valid are ok, skipped, wrong, failed");
  EXPECT_EQ(complaint("/check/bitwise", 1), "field 'check.bitwise' is not true or false");
  EXPECT_EQ(complaint("/metrics/time/value", nullptr),
            "field 'metrics.time.value' is not a number");
  EXPECT_EQ(complaint("/samples/max_over_ranks/1", nullptr),
            "field 'samples.max_over_ranks[1]' is not a number");
  EXPECT_EQ(complaint("/samples/per_rank/1/0", "x"),
            "field 'samples.per_rank[1][0]' is not a number");
  EXPECT_EQ(complaint("/samples/per_rank/0", 1), "field 'samples.per_rank[0]' is no array");
  EXPECT_EQ(complaint("/samples/per_rank", 1), "field 'samples.per_rank' is no array");
  EXPECT_THROW(record_from_json(ordered_json::array()), std::runtime_error);
}

}  // namespace
}  // namespace commfuse
