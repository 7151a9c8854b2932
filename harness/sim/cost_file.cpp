// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/cost_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "suite/error.h"

namespace commfuse {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLeastNs = 1e-3;

/// What is wrong with a part of a file; the reader adds where.
class BadCosts : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

const Json& member(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) {
    throw BadCosts(fmt::format("'{}' is missing", name));
  }
  return object.at(name);
}

std::string text_at(const Json& object, const char* name) {
  const Json& value = member(object, name);
  if (!value.is_string()) throw BadCosts(fmt::format("'{}' is no text", name));
  return value.get<std::string>();
}

double number_at(const Json& object, const char* name) {
  const Json& value = member(object, name);
  if (!value.is_number()) throw BadCosts(fmt::format("'{}' is no number", name));
  const auto number = value.get<double>();
  if (!std::isfinite(number) || number < 0) {
    throw BadCosts(fmt::format("'{}' is {}, not a finite number from 0 on", name, value.dump()));
  }
  return number;
}

std::int64_t count_at(const Json& object, const char* name) {
  const Json& value = member(object, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0 ||
      value.get<std::uint64_t>() > std::uint64_t{1} << 62) {
    throw BadCosts(fmt::format("'{}' is {}, not a whole number from 1 on", name, value.dump()));
  }
  return value.get<std::int64_t>();
}

OpKey key_from(const Json& json) {
  OpKey key{text_at(json, "kind"), text_at(json, "how"), {}};
  const auto names = size_names(key.kind);
  if (names.empty()) throw BadCosts(fmt::format("there is no op '{}'", key.kind));
  for (std::size_t i = 0; i < names.size(); ++i) {
    key.sizes[i] = count_at(json, std::string(names[i]).c_str());
  }
  return key;
}

void add_entry(const Json& json, OpCosts& costs) {
  const OpKey key = key_from(member(json, "op"));
  const double ns = number_at(json, "ns");
  if (ns > 0 && ns < kLeastNs)
    throw BadCosts(fmt::format("'ns' is {}, less than a picosecond", ns));
  const OpCost cost{ns, count_at(json, "count"), number_at(json, "spread")};
  if (!costs.emplace(key, cost).second) {
    throw BadCosts(fmt::format("{} occurs twice", describe(key)));
  }
}

CostFile from_json(const Json& json) {
  const Json& schema = member(json, "schema");
  if (schema != kCostSchema) {
    throw BadCosts(
        fmt::format("its schema is {}, this program knows {}", schema.dump(), kCostSchema));
  }
  CostFile file{member(json, "machine"),
                text_at(json, "clock"),
                text_at(json, "time"),
                text_at(json, "commit"),
                {}};
  if (!file.machine.is_object()) throw BadCosts("'machine' is no object");
  const Json& ops = member(json, "ops");
  if (!ops.is_array()) throw BadCosts("'ops' is no list");
  for (std::size_t i = 0; i < ops.size(); ++i) {
    try {
      add_entry(ops[i], file.costs);
    } catch (const BadCosts& error) {
      throw BadCosts(fmt::format("ops[{}]: {}", i, error.what()));
    }
  }
  return file;
}

[[noreturn]] void cannot_be_read(const std::filesystem::path& path, const char* reason) {
  throw UsageError(fmt::format("{} cannot be read: {}", path.string(), reason));
}

[[noreturn]] void cannot_be_written(const std::filesystem::path& path, const std::string& reason) {
  throw std::runtime_error(fmt::format("{} cannot be written: {}", path.string(), reason));
}

std::string contents(const std::filesystem::path& path) {
  std::error_code unknown;
  const auto type = std::filesystem::status(path, unknown).type();
  using Type = std::filesystem::file_type;
  if (type == Type::directory) cannot_be_read(path, "Is a directory");
  if (type != Type::regular && type != Type::not_found) cannot_be_read(path, "it is no file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    // An empty file gives nothing and has no error of the system.
    if (!file || errno != 0) cannot_be_read(path, std::strerror(errno));
  }
  return text.str();
}

}  // namespace

nlohmann::ordered_json to_json(const CostFile& file) {
  Json json{{"schema", kCostSchema}, {"machine", file.machine}, {"clock", file.clock},
            {"time", file.time},     {"commit", file.commit},   {"ops", Json::array()}};
  for (const auto& [key, cost] : file.costs) {
    Json op{{"kind", key.kind}, {"how", key.how}};
    const auto names = size_names(key.kind);
    for (std::size_t i = 0; i < names.size(); ++i) op[std::string(names[i])] = key.sizes[i];
    json["ops"].push_back(
        {{"op", op}, {"ns", cost.ns}, {"count", cost.count}, {"spread", cost.spread}});
  }
  return json;
}

CostFile read_costs(const std::filesystem::path& path) {
  const Json json = Json::parse(contents(path), nullptr, false);
  try {
    if (json.is_discarded()) throw BadCosts("no whole JSON object");
    return from_json(json);
  } catch (const BadCosts& error) {
    throw UsageError(fmt::format("{} is no file of costs: {}", path.string(), error.what()));
  }
}

void write_costs(const std::filesystem::path& path, const CostFile& file) {
  const std::filesystem::path draft = path.string() + fmt::format(".{}.part", getpid());
  errno = 0;
  {
    std::ofstream stream(draft, std::ios::binary | std::ios::trunc);
    if (!stream) cannot_be_written(path, std::strerror(errno));
    stream << to_json(file).dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
    stream.close();
    if (!stream) {
      const int reason = errno;
      std::error_code ignored;
      std::filesystem::remove(draft, ignored);
      cannot_be_written(path, std::strerror(reason));
    }
  }
  std::error_code failed;
  std::filesystem::rename(draft, path, failed);
  if (!failed) return;
  std::error_code ignored;
  std::filesystem::remove(draft, ignored);
  cannot_be_written(path, failed.message());
}

}  // namespace commfuse
