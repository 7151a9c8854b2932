// SPDX-License-Identifier: Apache-2.0
#include "harness/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/exit_codes.h"
#include "harness/option_values.h"
#include "impls/implementation.h"
#include "suite/error.h"
#include "suite/workload.h"

namespace commfuse {
namespace {

/// Every form of "n=<parts>:axis=tokens|features" as a suffix of the name.
std::vector<std::string> every_suffix(std::string_view parameters) {
  std::vector<std::string> suffixes{""};
  if (parameters.empty()) return suffixes;
  for (const std::string& parameter : split(parameters, ':')) {
    const std::size_t equals = parameter.find('=');
    const std::string values = parameter.substr(equals + 1);
    std::vector<std::string> longer;
    for (const std::string& suffix : suffixes) {
      for (const std::string& value : split(values.starts_with('<') ? "1|3" : values, '|')) {
        longer.push_back(fmt::format("{}:{}={}", suffix, parameter.substr(0, equals), value));
      }
    }
    suffixes = std::move(longer);
  }
  return suffixes;
}

/// Values may contradict each other; each of them has been taken from the table.
bool accepted(const std::string& spec) {
  try {
    validate_implementation(spec);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

/// Divided by every number of parts; of prime sizes, which few divide and no vector load fits; and
/// of whole tiles. Each with another activation.
std::vector<Shape> small_shapes(std::int32_t ranks) {
  std::vector<Shape> shapes{
      {.model = "even",
       .hidden = 24,
       .ffn = 24,
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 8,
       .activation = Activation::swiglu,
       .causal = true,
       .tokens = 12},
      {.model = "odd",
       .hidden = 13,
       .ffn = 7,
       .heads = 3,
       .kv_heads = 1,
       .head_dim = 7,
       .activation = Activation::relu,
       .causal = false,
       .tokens = 5},
      {.model = "tiles",
       .hidden = 192,
       .ffn = 192,
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 64,
       .activation = Activation::gelu,
       .causal = true,
       .tokens = 96},
  };
  for (Shape& shape : shapes) {
    for (std::int32_t* size : {&shape.ffn, &shape.heads, &shape.kv_heads, &shape.tokens}) {
      *size *= ranks;
    }
    // Only data parallelism cuts it, into up to 3 parts on every rank: of the largest shape, which
    // takes the longest, it grows no more than it must.
    const std::int32_t step = 3 * ranks;
    const bool largest = shape.model == "tiles";
    shape.hidden = largest ? (shape.hidden + step - 1) / step * step : shape.hidden * ranks;
  }
  return shapes;
}

}  // namespace

std::vector<std::string> every_implementation_variant() {
  std::vector<std::string> specs;
  for (const ImplementationEntry& entry : implementations()) {
    for (const std::string& suffix : every_suffix(entry.parameters)) {
      std::string spec = std::string(entry.name) + suffix;
      if (accepted(spec)) specs.push_back(std::move(spec));
    }
  }
  return specs;
}

std::vector<CaseGroup> self_test_cases(const Options& options, std::int32_t ranks, bool one_node) {
  Options selection = options;
  selection.workloads.clear();
  for (const WorkloadEntry& entry : workloads()) {
    selection.workloads.push_back(selector_of(entry));
  }
  selection.impls = every_implementation_variant();
  selection.dtypes = {kDTypes.begin(), kDTypes.end()};
  std::vector<CaseGroup> cases;
  for (const Shape& shape : small_shapes(ranks)) {
    selection.shapes = {shape};
    selection.tokens = {shape.tokens};
    for (CaseGroup& group : expand_cases(selection, ranks, one_node)) {
      group.index = static_cast<std::int32_t>(cases.size());
      cases.push_back(std::move(group));
    }
  }
  return cases;
}

std::string SelfTestReport::group(const std::string& title, std::span<const Record> records) {
  std::map<Outcome, std::int64_t> counts;
  std::string wrong;
  for (const Record& record : records) {
    ++counts[record.outcome];
    if (record.outcome == Outcome::skipped) ++reasons_[record.reason];
    if (record.outcome != Outcome::wrong) continue;
    wrong += fmt::format("  WRONG {}: {}\n", record.id, record.reason);
  }
  ok_ += counts[Outcome::ok];
  skipped_ += counts[Outcome::skipped];
  wrong_ += counts[Outcome::wrong];
  std::string line = fmt::format("{}: {} ok", title, counts[Outcome::ok]);
  if (counts[Outcome::skipped] > 0) line += fmt::format(", {} skipped", counts[Outcome::skipped]);
  if (counts[Outcome::wrong] > 0) line += fmt::format(", {} WRONG", counts[Outcome::wrong]);
  return line + "\n" + wrong;
}

std::string SelfTestReport::part(const SelfTestPart& part) {
  using State = SelfTestPart::State;
  if (part.state == State::failed) ++wrong_;
  const char* state = part.state == State::ok        ? "ok"
                      : part.state == State::missing ? "missing"
                      : part.state == State::warning ? "warning"
                                                     : "FAILED";
  return fmt::format("{}: {}, {}\n", part.name, state, part.text);
}

std::string SelfTestReport::summary() const {
  std::vector<std::pair<std::int64_t, std::string>> reasons;
  for (const auto& [reason, count] : reasons_) reasons.emplace_back(count, reason);
  std::ranges::stable_sort(reasons, std::ranges::greater{},
                           &std::pair<std::int64_t, std::string>::first);
  std::string why;
  for (const auto& [count, reason] : reasons) {
    why += fmt::format("{}{}: {}", why.empty() ? " (" : "; ", count, reason);
  }
  if (!why.empty()) why += ")";
  return fmt::format("selftest: {} cases ok, {} skipped{}, {} wrong\n", ok_, skipped_, why, wrong_);
}

int SelfTestReport::exit_code() const {
  if (wrong_ > 0) return kExitWrong;
  return ok_ > 0 ? kExitOk : kExitAllSkipped;
}

}  // namespace commfuse
