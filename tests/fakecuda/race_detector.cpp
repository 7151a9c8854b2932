// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/race_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

constexpr std::size_t kPageBytes = 1024;

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
  Pages& pages = records_[&allocation];
  for (std::size_t page = begin / kPageBytes; page <= (fresh.end - 1) / kPageBytes; ++page) {
    check_page(allocation, pages[page], fresh, now);
  }
}

void RaceDetector::check_page(const Allocation& allocation, std::vector<Record>& page,
                              const Record& fresh, const VectorClock& now) const {
  std::erase_if(page, [&](const Record& old) {
    if (old.begin >= fresh.end || fresh.begin >= old.end) return false;
    const bool ordered = now.covers(old.moment);
    if (!ordered && conflict(old.kind, fresh.kind)) {
      throw Finding(Verdict::Kind::race, report(allocation, old, fresh));
    }
    // Who is ordered after the fresh access is ordered after those that it covers, so it alone will
    // do.
    return ordered && fresh.begin <= old.begin && old.end <= fresh.end &&
           stands_for(fresh.kind, old.kind);
  });
  page.push_back(fresh);
}

void RaceDetector::forget(const VectorClock& covered_by_all) {
  const auto covered = [&](const Record& record) { return covered_by_all.covers(record.moment); };
  for (auto& [allocation, pages] : records_) {
    for (auto page = pages.begin(); page != pages.end();) {
      std::erase_if(page->second, covered);
      page = page->second.empty() ? pages.erase(page) : std::next(page);
    }
  }
}

std::size_t RaceDetector::size() const {
  std::size_t sum = 0;
  for (const auto& [allocation, pages] : records_) {
    for (const auto& [page, records] : pages) sum += records.size();
  }
  return sum;
}

}  // namespace commfuse::fake
