// SPDX-License-Identifier: Apache-2.0
#include "reports/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/record/statistics.h"
#include "reports/false_discovery.h"
#include "reports/fingerprint.h"
#include "reports/rank_sum.h"

namespace commfuse {
namespace {

constexpr const char* kTime = "time";

/// The first that is wrong or failed.
const Record* bad_record(const LaunchedRow& row) {
  const auto found = std::ranges::find_if(row, [](const Record& record) {
    return record.outcome == Outcome::wrong || record.outcome == Outcome::failed;
  });
  return found == row.end() ? nullptr : &*found;
}

bool all_skipped(const LaunchedRow& row) {
  return std::ranges::all_of(
      row, [](const Record& record) { return record.outcome == Outcome::skipped; });
}

std::vector<double> times_of(const LaunchedRow& row) {
  std::vector<double> times;
  for (const Record& record : row) {
    const auto time = record.metrics.find(kTime);
    if (record.outcome == Outcome::ok && time != record.metrics.end() && time->second.value > 0) {
      times.push_back(time->second.value);
    }
  }
  return times;
}

std::string unit_of(const LaunchedRow& row) {
  for (const Record& record : row) {
    const auto time = record.metrics.find(kTime);
    if (time != record.metrics.end()) return time->second.unit;
  }
  return "";
}

/// The facts that differ: "libraries.blas: OpenBLAS 0.3.21, OpenBLAS 0.3.28; cpu: ...".
std::string differing_facts(const Record& a, const Record& b) {
  const std::map<std::string, std::string> of_a = fingerprint(a), of_b = fingerprint(b);
  std::map<std::string, std::string> all = of_a;
  all.insert(of_b.begin(), of_b.end());
  std::string text;
  for (const auto& [fact, ignored] : all) {
    const auto value = [&](const auto& facts) {
      const auto found = facts.find(fact);
      return found == facts.end() ? std::string("(none)") : found->second;
    };
    if (value(of_a) == value(of_b)) continue;
    text += fmt::format("{}{}: {}, {}", text.empty() ? "" : "; ", fact, value(of_a), value(of_b));
  }
  return text;
}

/// The probability that a value of b is larger than one of a, ties counted half.
double probability_larger(const std::vector<double>& a, const std::vector<double>& b) {
  double larger = 0;
  for (const double of_a : a) {
    for (const double of_b : b) larger += of_b > of_a ? 1 : of_b == of_a ? 0.5 : 0;
  }
  return larger / static_cast<double>(a.size() * b.size());
}

class RowPairs {
 public:
  RowPairs(const Launches& a, const Launches& b, const ComparisonRules& rules)
      : a_(a), b_(b), rules_(rules) {}

  Comparison compare() {
    for (const auto& [id, row] : a_.rows) {
      const auto other = b_.rows.find(id);
      if (other == b_.rows.end()) {
        add_incomparable(id, IncomparableRow::Why::removed);
      } else {
        add_pair(id, row, other->second);
      }
    }
    for (const auto& [id, row] : b_.rows) {
      if (!a_.rows.contains(id)) add_incomparable(id, IncomparableRow::Why::added);
    }
    judge();
    return std::move(result_);
  }

 private:
  void add_incomparable(const std::string& id, IncomparableRow::Why why, std::string detail = "") {
    result_.incomparable.push_back({id, why, std::move(detail)});
  }

  void add_pair(const std::string& id, const LaunchedRow& a, const LaunchedRow& b) {
    if (all_skipped(a) && all_skipped(b)) {
      ++result_.skipped;
      return;
    }
    if (all_skipped(b)) return add_incomparable(id, IncomparableRow::Why::removed, b[0].reason);
    if (all_skipped(a)) return add_incomparable(id, IncomparableRow::Why::added, a[0].reason);
    const std::string unit_a = unit_of(a), unit_b = unit_of(b);
    if (!unit_a.empty() && !unit_b.empty() && unit_a != unit_b) {
      return add_incomparable(id, IncomparableRow::Why::unit,
                              fmt::format("{}, {}", unit_a, unit_b));
    }
    if (a[0].clock != b[0].clock) {
      return add_incomparable(id, IncomparableRow::Why::clock,
                              fmt::format("{}, {}", name_of(a[0].clock), name_of(b[0].clock)));
    }
    if (const std::string facts = differing_facts(a[0], b[0]); !facts.empty()) {
      add_incomparable(id, IncomparableRow::Why::environment, facts);
    }
    result_.rows.push_back(compared(id, a, b));
    probabilities_.push_back(rank_sum_probability(times_of(a), times_of(b)));
  }

  [[nodiscard]] ComparedRow compared(const std::string& id, const LaunchedRow& a,
                                     const LaunchedRow& b) const {
    ComparedRow row;
    row.id = id;
    const std::vector<double> times_a = times_of(a), times_b = times_of(b);
    row.launches_a = times_a.size();
    row.launches_b = times_b.size();
    if (!times_a.empty()) row.time_a = median(times_a);
    if (!times_b.empty()) row.time_b = median(times_b);
    if (!times_a.empty() && !times_b.empty()) {
      row.ratio = ratio_interval(times_a, times_b, 1 - rules_.alpha);
      row.probability_larger = probability_larger(times_a, times_b);
    }
    if (const Record* bad = bad_record(b)) {
      row.verdict = Verdict::wrong;
      row.reason = fmt::format("{}: {}", name_of(bad->outcome), bad->reason);
    }
    return row;
  }

  void judge() {
    const std::vector<double> rates = false_discovery_rates(probabilities_);
    for (std::size_t i = 0; i < rates.size(); ++i) {
      ComparedRow& row = result_.rows[i];
      row.false_discovery_rate = rates[i];
      if (row.verdict != Verdict::wrong) judge(row);
    }
  }

  void judge(ComparedRow& row) const {
    const std::size_t fewest = std::min(row.launches_a, row.launches_b);
    if (fewest < rules_.fewest_launches) {
      row.reason = fmt::format("{} and {} launches, needs {}", row.launches_a, row.launches_b,
                               rules_.fewest_launches);
      return;
    }
    const RatioInterval& ratio = row.ratio.value();
    const bool certain =
        row.false_discovery_rate <= rules_.alpha && (ratio.low > 1 || ratio.high < 1);
    const double least = 1 - rules_.minimum_effect, most = 1 + rules_.minimum_effect;
    if (certain && ratio.ratio > most) {
      row.verdict = Verdict::slower;
    } else if (certain && ratio.ratio < least) {
      row.verdict = Verdict::faster;
    } else if (certain || (ratio.low >= least && ratio.high <= most)) {
      row.verdict = Verdict::same;
    } else if (ratio.low > most || ratio.high < least) {
      row.reason = fmt::format(
          "apart, but of {} rows tested at once {} launches a side prove "
          "none to have changed; {} can",
          result_.rows.size(), fewest, launches_that_prove());
    } else {
      row.reason = "launches differ too much to tell";
    }
  }

  /// Launches a side with which one row of all can be called different: of the C(2n, n) ways to
  /// divide them the two that are farthest apart must be rare enough.
  [[nodiscard]] std::size_t launches_that_prove() const {
    double ways = 1;
    for (std::size_t n = 1;; ++n) {
      ways *= 2.0 * static_cast<double>(2 * n - 1) / static_cast<double>(n);
      if (2 / ways * static_cast<double>(result_.rows.size()) <= rules_.alpha) return n;
    }
  }

  const Launches& a_;
  const Launches& b_;
  const ComparisonRules& rules_;
  Comparison result_;
  std::vector<double> probabilities_;  // of result_.rows
};

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::same:
      return "SAME";
    case Verdict::faster:
      return "FASTER";
    case Verdict::slower:
      return "SLOWER";
    case Verdict::unclear:
      return "UNCLEAR";
    case Verdict::wrong:
      return "WRONG";
  }
  return "unknown";
}

std::string_view name_of(IncomparableRow::Why why) {
  switch (why) {
    case IncomparableRow::Why::added:
      return "added";
    case IncomparableRow::Why::removed:
      return "removed";
    case IncomparableRow::Why::unit:
      return "unit differs";
    case IncomparableRow::Why::environment:
      return "environment differs";
    case IncomparableRow::Why::clock:
      return "clock differs";
  }
  return "unknown";
}

Comparison compare_launches(const Launches& a, const Launches& b, const ComparisonRules& rules) {
  return RowPairs(a, b, rules).compare();
}

}  // namespace commfuse
