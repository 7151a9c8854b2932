// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/backend_fault.h"

#include <algorithm>
#include <utility>

namespace commfuse::fake {
namespace {

using Kind = StreamCall::Kind;

constexpr std::ptrdiff_t kBesideCounter = 4;  // bytes: nobody's, in the counter's own line

bool is_record(const StreamCall& call) { return call.kind == Kind::record; }

bool is_value(const StreamCall& call) {
  return call.kind == Kind::write_value || call.kind == Kind::wait_value;
}

}  // namespace

void BackendFault::learn() { rank().phase = Phase::learning; }

void BackendFault::start() { rank().phase = Phase::wrong; }

bool BackendFault::feeds_a_sender(EventId event) const {
  return std::ranges::any_of(
      event_waits_, [&](const auto& wait) { return wait.second == event && sends(wait.first); });
}

bool BackendFault::is_flag(const StreamCall& call, Kind kind) const {
  return call.kind == kind && flags_.contains(call.address);
}

bool BackendFault::is_credit(const StreamCall& call, Kind kind) const {
  return call.kind == kind && credits_.contains(call.address);
}

void BackendFault::watch(const StreamCall& call) {
  switch (call.kind) {
    case Kind::kernel:
      computing_.insert(call.stream);
      break;
    case Kind::copy:
    case Kind::joint:
      sending_.insert(call.stream);
      break;
    case Kind::wait_event:
      event_waits_.emplace(call.stream, call.event);
      break;
    case Kind::write_value:
      (sends(call.stream) ? flags_ : credits_).insert(call.address);
      if (!sends(call.stream)) crediting_.insert(call.stream);
      break;
    default:
      break;
  }
}

void BackendFault::at(const StreamCall& call, const Make& make) {
  switch (rank().phase) {
    case Phase::before:
      return make(call);
    case Phase::learning:
      watch(call);
      return make(call);
    case Phase::wrong:
      return go_wrong(call, make);
  }
}

bool BackendFault::awaits_kept(const StreamCall& call) {
  return call.kind == Kind::wait_event && std::ranges::any_of(rank().kept, [&](const Kept& kept) {
           return is_record(kept.call) && kept.call.event == call.event;
         });
}

void BackendFault::make_kept() {
  for (const Kept& kept : std::exchange(rank().kept, {})) kept.make(kept.call);
}

void BackendFault::leave_out(bool leaves_out, const StreamCall& call, const Make& make) {
  if (leaves_out) {
    ++hits_;
  } else {
    make(call);
  }
}

/// A call is kept, and what its stream holds after it, until another call has overtaken them.
void BackendFault::overtake(bool kept, bool overtakes, const StreamCall& call, const Make& make) {
  std::vector<Kept>& all = rank().kept;
  if (!all.empty() && overtakes) {
    ++hits_;
    make(call);
    make_kept();
  } else if (all.empty() ? kept : all.front().call.stream == call.stream) {
    all.push_back({call, make});
  } else {
    make(call);
  }
}

void BackendFault::go_wrong(const StreamCall& call, const Make& make) {
  const std::vector<Kept>& kept = rank().kept;
  const bool of_kept_stream = !kept.empty() && kept.front().call.stream == call.stream;
  const bool waits_for_event = call.kind == Kind::wait_event;
  switch (bug_) {
    case CallBug::no_event_wait:
      return leave_out(waits_for_event && sends(call.stream), call, make);
    case CallBug::event_recorded_early:
      return overtake(call.kind == Kind::kernel && computes(call.stream),
                      of_kept_stream && call.kind == Kind::record, call, make);
    case CallBug::event_waited_early:
      return overtake(
          call.kind == Kind::record && feeds_a_sender(call.event) && computes(call.stream),
          waits_for_event && !kept.empty() && kept.front().call.event == call.event, call, make);
    case CallBug::block_overwritten:
      return leave_out(waits_for_event && computes(call.stream), call, make);
    case CallBug::flag_before_copy:
      return overtake(call.kind == Kind::copy && sends(call.stream),
                      of_kept_stream && is_flag(call, Kind::write_value), call, make);
    case CallBug::no_flag_wait:
      return leave_out(is_flag(call, Kind::wait_value), call, make);
    case CallBug::no_credit_wait:
      return leave_out(is_credit(call, Kind::wait_value), call, make);
    case CallBug::no_credit_written:
      return leave_out(is_credit(call, Kind::write_value), call, make);
    case CallBug::credit_before_read:
      return overtake(
          (waits_for_event || call.kind == Kind::wait_value) && crediting_.contains(call.stream),
          of_kept_stream && is_credit(call, Kind::write_value), call, make);
    case CallBug::exchanges_reversed:
      if (call.rank == 0) return reverse_exchanges(call, make);
      return make(call);
    case CallBug::lanes_reversed:
      if (call.rank != 0) return make(call);
      if (awaits_kept(call)) make_kept();
      return overtake(call.kind == Kind::joint, call.kind == Kind::joint && !of_kept_stream, call,
                      make);
    default:
      return change_value(call, make);
  }
}

void BackendFault::change_value(const StreamCall& call, const Make& make) {
  StreamCall changed = call;
  const bool lower = (bug_ == CallBug::flag_wait_low && is_flag(call, Kind::wait_value)) ||
                     (bug_ == CallBug::credit_wait_low && is_credit(call, Kind::wait_value)) ||
                     (bug_ == CallBug::epochs_restarted && is_value(call));
  const bool aside = bug_ == CallBug::flag_in_wrong_slot && is_flag(call, Kind::write_value);
  if (lower) --changed.value;
  if (aside) changed.address += kBesideCounter;
  if (lower || aside) ++hits_;
  make(changed);
}

/// An exchange, with all that its stream holds up to its record, is kept until the next one of the
/// stream is complete, and made after it; unless something waits for it before.
void BackendFault::reverse_exchanges(const StreamCall& call, const Make& make) {
  std::vector<Kept>& kept = rank().kept;
  if (kept.empty()) {
    if (call.kind != Kind::joint) return make(call);
    return kept.push_back({call, make});
  }
  const bool awaited = awaits_kept(call);
  if (awaited) make_kept();
  if (awaited || call.stream != kept.front().call.stream) return make(call);
  kept.push_back({call, make});
  if (std::ranges::count_if(kept, is_record, &Kept::call) < 2) return;
  const auto first_end = std::ranges::find_if(kept, is_record, &Kept::call) + 1;
  std::rotate(kept.begin(), first_end, kept.end());
  ++hits_;
  make_kept();
}

bool BackendFault::ungrouped() {
  const bool wrong = bug_ == CallBug::ungrouped && rank().phase == Phase::wrong;
  if (wrong) ++hits_;
  return wrong;
}

bool BackendFault::stays_registered() {
  const bool wrong = bug_ == CallBug::freed_registered && rank().phase == Phase::wrong;
  if (wrong) ++hits_;
  return wrong;
}

std::size_t BackendFault::count_of(std::size_t count) {
  const bool wrong = bug_ == CallBug::unequal_counts && rank().phase == Phase::wrong &&
                     Machine::current_rank() == 0;
  if (wrong) ++hits_;
  return wrong ? count - 1 : count;
}

}  // namespace commfuse::fake
