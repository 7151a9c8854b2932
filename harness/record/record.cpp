// SPDX-License-Identifier: Apache-2.0
#include "harness/record/record.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace commfuse {
namespace {

using nlohmann::ordered_json;

constexpr std::array kOutcomes{
    std::pair{Outcome::ok, std::string_view("ok")},
    std::pair{Outcome::skipped, std::string_view("skipped")},
    std::pair{Outcome::wrong, std::string_view("wrong")},
    std::pair{Outcome::failed, std::string_view("failed")},
};
constexpr std::array kClocks{
    std::pair{Clock::wall, std::string_view("wall")},
    std::pair{Clock::replayed, std::string_view("replayed")},
    std::pair{Clock::modelled, std::string_view("modelled")},
};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "unknown";
}

/// JSON has no infinity: such members are left out; such elements become null, so that the others
/// keep their index.
ordered_json without_infinities(const ordered_json& value) {
  if (value.is_object()) {
    ordered_json kept = ordered_json::object();
    for (const auto& [key, member] : value.items()) {
      if (member.is_number_float() && !std::isfinite(member.get<double>())) continue;
      kept[key] = without_infinities(member);
    }
    return kept;
  }
  if (value.is_array()) {
    ordered_json kept = ordered_json::array();
    for (const ordered_json& element : value) kept.push_back(without_infinities(element));
    return kept;
  }
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return nullptr;
  return value;
}

ordered_json object_or_empty(const ordered_json& value) {
  return value.is_null() ? ordered_json::object() : without_infinities(value);
}

void require_finite(const std::vector<double>& samples, const std::string& id) {
  for (const double sample : samples) {
    if (!std::isfinite(sample)) {
      throw std::invalid_argument(fmt::format("{}: a sample is {}", id, sample));
    }
  }
}

ordered_json to_json(const Samples& samples, const std::string& id) {
  require_finite(samples.max_over_ranks, id);
  for (const std::vector<double>& rank : samples.per_rank) require_finite(rank, id);
  return {{"unit", samples.unit},
          {"max_over_ranks", samples.max_over_ranks},
          {"per_rank", samples.per_rank}};
}

ordered_json to_json(const std::map<std::string, Metric>& metrics) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, metric] : metrics) {
    if (std::isfinite(metric.value)) {
      object[name] = {{"value", metric.value}, {"unit", metric.unit}};
    }
  }
  return object;
}

/// A JSON object whose fields are asked for by name; errors carry the path to the field.
class Fields {
 public:
  Fields(const ordered_json& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) {
      throw std::runtime_error(path_.empty() ? std::string("the record is no JSON object")
                                             : fmt::format("field '{}' is no object", path_));
    }
  }

  [[nodiscard]] bool has(const char* name) const { return object_.contains(name); }
  [[nodiscard]] std::string path(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }
  [[nodiscard]] const ordered_json& any(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) {
      throw std::runtime_error(fmt::format("field '{}' is missing", path(name)));
    }
    return *found;
  }
  [[nodiscard]] std::string text(const char* name) const {
    return as<std::string>(name, &ordered_json::is_string, "a string");
  }
  [[nodiscard]] std::int64_t integer(const char* name) const {
    return as<std::int64_t>(name, &ordered_json::is_number_integer, "an integer");
  }
  [[nodiscard]] double number(const char* name) const {
    return as<double>(name, &ordered_json::is_number, "a number");
  }
  [[nodiscard]] bool boolean(const char* name) const {
    return as<bool>(name, &ordered_json::is_boolean, "true or false");
  }
  [[nodiscard]] std::vector<double> numbers(const char* name) const {
    return numbers_of(any(name), path(name));
  }
  [[nodiscard]] Fields object(const char* name) const { return {any(name), path(name)}; }
  [[nodiscard]] ordered_json raw_object(const char* name) const { return object(name).object_; }
  template <class Table>
  [[nodiscard]] auto one_of(const char* name, const Table& table) const {
    const std::string given = text(name);
    std::string valid;
    for (const auto& [value, known] : table) {
      if (known == given) return value;
      valid += fmt::format("{}{}", valid.empty() ? "" : ", ", known);
    }
    throw std::runtime_error(
        fmt::format("field '{}' is '{}', valid are {}", path(name), given, valid));
  }
  [[nodiscard]] auto items() const { return object_.items(); }

  static std::vector<double> numbers_of(const ordered_json& array, const std::string& path) {
    if (!array.is_array()) {
      throw std::runtime_error(fmt::format("field '{}' is no array", path));
    }
    std::vector<double> values;
    values.reserve(array.size());
    for (const ordered_json& element : array) {
      if (!element.is_number()) {
        throw std::runtime_error(
            fmt::format("field '{}[{}]' is not a number", path, values.size()));
      }
      values.push_back(element.get<double>());
    }
    return values;
  }

 private:
  template <class Value>
  [[nodiscard]] Value as(const char* name, bool (ordered_json::*is)() const noexcept,
                         const char* expected) const {
    const ordered_json& value = any(name);
    if (!(value.*is)()) {
      throw std::runtime_error(fmt::format("field '{}' is not {}", path(name), expected));
    }
    return value.get<Value>();
  }

  const ordered_json& object_;
  std::string path_;
};

CheckReport read_check(const Fields& fields) {
  constexpr double kNotFinite = std::numeric_limits<double>::infinity();
  CheckReport check;
  check.compared = fields.integer("compared");
  check.wrong = fields.integer("wrong");
  check.first_wrong = fields.text("first_wrong");
  check.max_abs = fields.has("max_abs") ? fields.number("max_abs") : kNotFinite;
  check.max_rel = fields.has("max_rel") ? fields.number("max_rel") : kNotFinite;
  check.bitwise = fields.boolean("bitwise");
  check.bound = fields.text("bound");
  return check;
}

Samples read_samples(const Fields& fields) {
  Samples samples;
  samples.unit = fields.text("unit");
  samples.max_over_ranks = fields.numbers("max_over_ranks");
  const ordered_json& per_rank = fields.any("per_rank");
  if (!per_rank.is_array()) {
    throw std::runtime_error(fmt::format("field '{}' is no array", fields.path("per_rank")));
  }
  for (const ordered_json& rank : per_rank) {
    const std::string path =
        fmt::format("{}[{}]", fields.path("per_rank"), samples.per_rank.size());
    samples.per_rank.push_back(Fields::numbers_of(rank, path));
  }
  return samples;
}

std::map<std::string, Metric> read_metrics(const Fields& fields) {
  std::map<std::string, Metric> metrics;
  for (const auto& [name, value] : fields.items()) {
    const Fields metric(value, fields.path(name));
    metrics[name] = {metric.number("value"), metric.text("unit")};
  }
  return metrics;
}

void require_known_schema(const Fields& fields) {
  const std::int64_t schema = fields.integer("schema");
  if (schema != kRecordSchema) {
    throw std::runtime_error(fmt::format("unknown record schema {}; this program reads schema {}",
                                         schema, kRecordSchema));
  }
}

std::int32_t read_ranks(const Fields& fields) {
  const std::int64_t ranks = fields.integer("ranks");
  if (ranks < 1 || ranks > std::numeric_limits<std::int32_t>::max()) {
    throw std::runtime_error(fmt::format("field 'ranks' is {}, must be positive", ranks));
  }
  return static_cast<std::int32_t>(ranks);
}

}  // namespace

std::string_view name_of(Outcome outcome) { return name_in(kOutcomes, outcome); }
std::string_view name_of(Clock clock) { return name_in(kClocks, clock); }

ordered_json to_json(const CheckReport& check) {
  ordered_json object{
      {"compared", check.compared}, {"wrong", check.wrong}, {"first_wrong", check.first_wrong}};
  if (std::isfinite(check.max_abs)) object["max_abs"] = check.max_abs;
  if (std::isfinite(check.max_rel)) object["max_rel"] = check.max_rel;
  object["bitwise"] = check.bitwise;
  object["bound"] = check.bound;
  return object;
}

CheckReport check_from_json(const ordered_json& object) { return read_check(Fields(object, "")); }

ordered_json to_json(const Record& record) {
  if (record.id.empty() || record.id.size() > kLongestId) {
    throw std::invalid_argument(fmt::format("a record id has 1 to {} bytes, got {}: {}", kLongestId,
                                            record.id.size(), record.id));
  }
  ordered_json object{{"schema", kRecordSchema},
                      {"id", record.id},
                      {"workload", record.workload},
                      {"impl", record.impl},
                      {"shape", object_or_empty(record.shape)},
                      {"ranks", record.ranks},
                      {"mesh", record.mesh},
                      {"dtype", record.dtype},
                      {"pass", record.pass},
                      {"backend", record.backend},
                      {"transport", record.transport},
                      {"link", record.link},
                      {"mode", record.mode},
                      {"clock", name_of(record.clock)},
                      {"outcome", name_of(record.outcome)},
                      {"reason", record.reason}};
  if (record.check) object["check"] = to_json(*record.check);
  object["samples"] = to_json(record.samples, record.id);
  object["metrics"] = to_json(record.metrics);
  object["details"] = object_or_empty(record.details);
  object["environment"] = object_or_empty(record.environment);
  object["time"] = record.time;
  return object;
}

Record record_from_json(const ordered_json& object) {
  const Fields fields(object, "");
  require_known_schema(fields);
  Record record;
  record.id = fields.text("id");
  record.workload = fields.text("workload");
  record.impl = fields.text("impl");
  record.shape = fields.raw_object("shape");
  record.ranks = read_ranks(fields);
  record.mesh = fields.text("mesh");
  record.dtype = fields.text("dtype");
  record.pass = fields.text("pass");
  record.backend = fields.text("backend");
  record.transport = fields.text("transport");
  record.link = fields.text("link");
  record.mode = fields.text("mode");
  record.clock = fields.one_of("clock", kClocks);
  record.outcome = fields.one_of("outcome", kOutcomes);
  record.reason = fields.text("reason");
  if (fields.has("check")) record.check = read_check(fields.object("check"));
  record.samples = read_samples(fields.object("samples"));
  record.metrics = read_metrics(fields.object("metrics"));
  record.details = fields.raw_object("details");
  record.environment = fields.raw_object("environment");
  record.time = fields.text("time");
  return record;
}

std::string to_line(const Record& record) {
  return to_json(record).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace commfuse
