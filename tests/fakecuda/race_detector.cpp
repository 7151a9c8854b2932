// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/race_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

bool writes(AccessKind kind) {
  return kind == AccessKind::write || kind == AccessKind::value_write;
}

bool by_value(AccessKind kind) {
  return kind == AccessKind::value_wait || kind == AccessKind::value_write;
}

bool conflict(AccessKind a, AccessKind b) {
  return (writes(a) || writes(b)) && !(by_value(a) && by_value(b));
}

/// Whatever conflicts with `old` conflicts with `fresh` too.
bool stands_for(AccessKind fresh, AccessKind old) {
  return fresh == old || fresh == AccessKind::write;
}

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::read:
      return "reads";
    case AccessKind::write:
      return "writes";
    case AccessKind::value_wait:
      return "waits for";
    case AccessKind::value_write:
      return "sets";
  }
  return "";
}

}  // namespace

RaceDetector::RaceDetector(std::function<std::string(std::uint64_t)> describe)
    : describe_(std::move(describe)) {}

std::string RaceDetector::report(const Allocation& allocation, const Record& earlier,
                                 const Record& later) const {
  return fmt::format("bytes [{}, {}) of rank {} {}: {} {} them and {} {} them, in no order",
                     std::max(earlier.begin, later.begin), std::min(earlier.end, later.end),
                     allocation.rank, allocation.name, describe_(earlier.op), verb(earlier.kind),
                     describe_(later.op), verb(later.kind));
}

void RaceDetector::check(const Allocation& allocation, const Access& access,
                         const VectorClock& now) {
  if (access.range.bytes == 0) return;
  const std::size_t begin = allocation.offset(access.range.data);
  const Record fresh{access.kind, begin, begin + access.range.bytes, access.moment, access.op};
  std::vector<Record>& records = records_[&allocation];
  for (const Record& old : records) {
    const bool overlap = old.begin < fresh.end && fresh.begin < old.end;
    if (overlap && conflict(old.kind, fresh.kind) && !now.covers(old.moment)) {
      throw Finding(Verdict::Kind::race, report(allocation, old, fresh));
    }
  }
  // Who is ordered after the fresh access is ordered after those that it covers, so it alone will
  // do.
  std::erase_if(records, [&](const Record& old) {
    return fresh.begin <= old.begin && old.end <= fresh.end && now.covers(old.moment) &&
           stands_for(fresh.kind, old.kind);
  });
  records.push_back(fresh);
}

void RaceDetector::forget(const VectorClock& covered_by_all) {
  for (auto& [allocation, records] : records_) {
    std::erase_if(records,
                  [&](const Record& record) { return covered_by_all.covers(record.moment); });
  }
}

std::size_t RaceDetector::size() const {
  std::size_t sum = 0;
  for (const auto& [allocation, records] : records_) sum += records.size();
  return sum;
}

}  // namespace commfuse::fake
