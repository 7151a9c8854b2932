// SPDX-License-Identifier: Apache-2.0
#include "impls/dependency_finder.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace commfuse {
namespace {

constexpr OpId kBefore = ~OpId{0};  // the author of what is defined before the first op

/// The queues that an op, or one message of it, stands in: a range of them.
struct Queues {
  std::size_t first = 0;
  std::size_t last = 0;

  [[nodiscard]] std::uint8_t bits() const {
    return static_cast<std::uint8_t>(1U << first | 1U << last);
  }
};
Queues queues(const Plan& plan, Lane lane, MessageId message) {
  const std::size_t receives = 2 * index_of(lane);
  if (message == kWholeOp) return {receives, receives + 1};
  const std::size_t queue = receives + (plan.messages[message].send ? 1 : 0);
  return {queue, queue};
}

/// Calls `visit` with every plain rectangle of the view; strips that follow each other are one.
template <class Visit>
void each_rectangle(const View& view, Visit visit) {
  if (view.strips > 1 && view.col_step == 0 && view.row_step == view.rows) {
    View joined = view;
    joined.rows = view.rows * view.strips;
    joined.strips = 1;
    visit(joined);
    return;
  }
  for (std::int32_t s = 0; s < view.strips; ++s) visit(view.strip(s));
}

/// The first segment at or below `row`, where one begins afterwards.
template <class Rows>
auto cut(Rows& rows, std::int32_t row) {
  auto after = rows.upper_bound(row);
  const auto holder = std::prev(after);
  if (holder->first == row) return holder;
  if (holder->second.end <= row) return after;
  auto below = holder->second;
  holder->second.end = row;
  return rows.emplace_hint(after, row, std::move(below));
}

}  // namespace

DependencyFinder::DependencyFinder(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) add(tensor);
}

void DependencyFinder::add(const Tensor& tensor) {
  Index& index = tensors_.emplace_back();
  index.cols = tensor.cols;
  index.rows[0].end = tensor.rows;
}

void DependencyFinder::define(const View& view) {
  each_rectangle(view, [&](const View& rectangle) {
    write(tensors_[view.tensor], rectangle, {kBefore, kWholeOp});
  });
  conflicts_.clear();
}

std::optional<View> DependencyFinder::undefined(const View& view) const {
  const Rows& rows = tensors_[view.tensor].rows;
  std::optional<View> missing;
  each_rectangle(view, [&](const View& rectangle) {
    const std::int32_t end_row = rectangle.row + rectangle.rows;
    const std::int32_t end_col = rectangle.col + rectangle.cols;
    auto segment = std::prev(rows.upper_bound(rectangle.row));
    for (; !missing && segment != rows.end() && segment->first < end_row; ++segment) {
      const std::int32_t col = written_until(segment->second, rectangle.col, end_col);
      if (col == end_col) continue;
      missing = rectangle;
      missing->row = std::max(rectangle.row, segment->first);
      missing->rows = std::min(end_row, segment->second.end) - missing->row;
      missing->col = col;
      missing->cols = end_col - col;
    }
  });
  return missing;
}

std::span<const Requirement> DependencyFinder::next(const Plan& plan, OpId id) {
  const Op& op = plan.ops[id];
  required_.clear();
  if (const auto* exchange = std::get_if<Exchange>(&op.work)) {
    for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
      access(plan, plan.messages[m].view, !plan.messages[m].send, {id, m});
      require(plan, op.lane, m);
    }
  } else {
    for (const Access& touched : accesses(plan, op)) {
      access(plan, touched.view, touched.write, {id, kWholeOp});
    }
    require(plan, op.lane, kWholeOp);
  }
  remember(plan, op.lane);
  return required_;
}

std::int32_t DependencyFinder::written_until(const Segment& segment, std::int32_t col,
                                             std::int32_t end) {
  while (col < end) {
    const auto holds =
        std::find_if(segment.writes.begin(), segment.writes.end(),
                     [col](const Touch& touch) { return touch.col <= col && col < touch.end; });
    if (holds == segment.writes.end()) break;
    col = std::min(holds->end, end);
  }
  return col;
}

void DependencyFinder::access(const Plan& plan, const View& view, bool writes, Dependency by) {
  Index& index = tensors_[view.tensor];
  each_rectangle(view, [&](const View& rectangle) {
    if (writes) {
      write(index, rectangle, by);
    } else {
      read(plan, index, rectangle, by);
    }
  });
}

void DependencyFinder::read(const Plan& plan, Index& index, const View& rectangle, Dependency by) {
  const Touch touch{rectangle.col, rectangle.col + rectangle.cols, by};
  const auto first = cut(index.rows, rectangle.row);
  const auto last = cut(index.rows, rectangle.row + rectangle.rows);
  for (auto it = first; it != last; ++it) {
    Segment& segment = it->second;
    collect(segment.writes, touch);
    if (by.message != kWholeOp) {
      segment.message_reads.push_back(touch);
      continue;
    }
    std::erase_if(segment.reads, [&](const Touch& earlier) {
      return touch.col <= earlier.col && earlier.end <= touch.end &&
             plan.ops[earlier.by.op].lane == plan.ops[by.op].lane;
    });
    segment.reads.push_back(touch);
  }
}

void DependencyFinder::write(Index& index, const View& rectangle, Dependency by) {
  const Touch touch{rectangle.col, rectangle.col + rectangle.cols, by};
  const bool all_columns = rectangle.cols == index.cols;
  const auto first = cut(index.rows, rectangle.row);
  const auto last = cut(index.rows, rectangle.row + rectangle.rows);
  const auto covered = [&](const Touch& earlier) {
    return touch.col <= earlier.col && earlier.end <= touch.end;
  };
  for (auto it = first; it != last; ++it) {
    Segment& segment = it->second;
    for (auto* touches : {&segment.writes, &segment.reads, &segment.message_reads}) {
      collect(*touches, touch);
      std::erase_if(*touches, covered);
    }
    if (!all_columns || it == first) segment.writes.push_back(touch);
  }
  if (all_columns && first != last) {
    first->second.end = std::prev(last)->second.end;
    index.rows.erase(std::next(first), last);
  }
}

void DependencyFinder::collect(const std::vector<Touch>& touches, const Touch& touch) {
  for (const Touch& earlier : touches) {
    const bool overlaps = earlier.col < touch.end && touch.col < earlier.end;
    if (overlaps && earlier.by.op != touch.by.op && earlier.by.op != kBefore) {
      conflicts_.push_back(earlier.by);
    }
  }
}

DependencyFinder::LaneOps DependencyFinder::known(const Plan& plan, Lane lane,
                                                  MessageId message) const {
  const auto [first, last] = queues(plan, lane, message);
  LaneOps latest = waited_[first];
  for (std::size_t other = 0; other < kLanes; ++other) {
    latest[other] = std::max(latest[other], waited_[last][other]);
  }
  return latest;
}

void DependencyFinder::require(const Plan& plan, Lane lane, MessageId message) {
  const LaneOps before = known(plan, lane, message);
  LaneOps latest = before;
  const std::uint8_t own = queues(plan, lane, message).bits();
  const auto first = static_cast<std::ptrdiff_t>(required_.size());
  for (const Dependency& conflict : conflicts_) {
    if (conflict.message == kWholeOp) {
      OpId& op = latest[index_of(plan.ops[conflict.op].lane)];
      op = std::max(op, conflict.op + 1);
    } else if ((waited_messages_[conflict.message] & own) == 0) {
      required_.push_back({message, conflict});
    }
  }
  for (std::size_t other = 0; other < kLanes; ++other) {
    if (other != index_of(lane) && latest[other] > before[other]) {
      required_.push_back({message, {latest[other] - 1, kWholeOp}});
    }
  }
  std::sort(required_.begin() + first, required_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.on.op, a.on.message) < std::tie(b.on.op, b.on.message);
  });
  const auto same = [](const auto& a, const auto& b) { return a.on == b.on; };
  required_.erase(std::unique(required_.begin() + first, required_.end(), same), required_.end());
  conflicts_.clear();
}

void DependencyFinder::remember(const Plan& plan, Lane lane) {
  waited_messages_.resize(plan.messages.size());
  for (const Requirement& requirement : required_) {
    const Dependency& on = requirement.on;
    const Queues own = queues(plan, lane, requirement.message);
    if (on.message != kWholeOp) {
      waited_messages_[on.message] |= own.bits();
      continue;
    }
    for (const std::size_t queue : {own.first, own.last}) {
      OpId& op = waited_[queue][index_of(plan.ops[on.op].lane)];
      op = std::max(op, on.op + 1);
    }
  }
}

}  // namespace commfuse
