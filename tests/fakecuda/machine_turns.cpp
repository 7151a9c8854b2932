// SPDX-License-Identifier: Apache-2.0
// How host threads and streams take turns. The host thread that holds the baton runs the heads of
// streams itself, so that threads switch only when another host is chosen.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/fakecuda/deadlock_report.h"
#include "tests/fakecuda/machine.h"

namespace commfuse::fake {
namespace {

constexpr std::size_t kForgetEvery = 256;  // operations

thread_local Machine* the_machine = nullptr;
thread_local std::int32_t the_rank = -1;

}  // namespace

Machine& Machine::current() {
  if (the_machine == nullptr) throw std::logic_error("not called by a host function of a machine");
  return *the_machine;
}

bool Machine::is_here() { return the_machine != nullptr; }

std::int32_t Machine::current_rank() {
  if (the_rank < 0) throw std::logic_error("not called by a host function of a machine");
  return the_rank;
}

Verdict Machine::run(std::int32_t ranks,
                     const std::function<void(std::int32_t rank)>& host_function) {
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    state_.hosts.emplace_back().rank = rank;
    scheduler_.add_actor();
  }
  threads_ = std::make_unique<HostThreads>(
      ranks, [this, &host_function](std::int32_t rank) { host_body(rank, host_function); });
  if (const auto actor = choose()) threads_->pass_to(static_cast<std::int32_t>(*actor));
  threads_->join();
  return verdict_;
}

void Machine::host_body(std::int32_t rank, const std::function<void(std::int32_t)>& host_function) {
  the_machine = this;
  the_rank = rank;
  try {
    if (!stopped_) host_function(rank);
  } catch (const Stopped&) {
  } catch (const Finding& finding) {
    stop(finding.kind(), fmt::format("rank {} host: {}", rank, finding.what()));
  } catch (const std::exception& error) {
    stop(Verdict::Kind::host_error, fmt::format("rank {} host: {}", rank, error.what()));
  }
  leave(state_.hosts[static_cast<std::size_t>(rank)]);
}

void Machine::leave(Host& host) {
  host.finished = true;
  if (const auto next = next_host()) threads_->pass_to(*next);
}

void Machine::take_turns(Host& host) {
  const std::optional<std::int32_t> next = next_host();
  if (next && *next != host.rank && !stopped_) threads_->hand_over(host.rank, *next);
  if (stopped_) throw Stopped{};
}

Host& Machine::enter() {
  Host& host = state_.hosts[static_cast<std::size_t>(current_rank())];
  if (stopped_) throw Stopped{};
  take_turns(host);
  return host;
}

/// Runs heads of streams until it is a host's turn. After the end of the run: any host that has not
/// left yet. None: all have left and the streams are empty.
std::optional<std::int32_t> Machine::next_host() {
  while (!stopped_) {
    const std::optional<Actor> actor = choose();
    if (actor && *actor < state_.hosts.size()) return static_cast<std::int32_t>(*actor);
    if (actor) {
      run_head(*actor);
    } else if (all_done()) {
      return std::nullopt;
    } else {
      stop(Verdict::Kind::deadlock, deadlock_report(state_));
    }
  }
  const auto left = std::ranges::find(state_.hosts, false, &Host::finished);
  if (left == state_.hosts.end()) return std::nullopt;
  return left->rank;
}

bool Machine::all_done() const {
  return std::ranges::all_of(state_.hosts, &Host::finished) &&
         std::ranges::all_of(state_.streams, [](const Stream& s) { return s.ops.empty(); });
}

void Machine::collect_runnable() {
  runnable_.clear();
  for (const Host& host : state_.hosts) {
    if (state_.ready(host)) runnable_.push_back(static_cast<Actor>(host.rank));
  }
  for (const Stream& stream : state_.streams) {
    if (stream.ops.empty()) continue;
    const Op& op = state_.ops[stream.ops.front()];
    if (!state_.held_up_by(op) && state_.ready(op)) runnable_.push_back(stream.actor);
  }
}

std::optional<Actor> Machine::choose() {
  collect_runnable();
  if (runnable_.empty()) return std::nullopt;
  return scheduler_.choose(runnable_);
}

void Machine::run_head(Actor actor) {
  const Stream& stream = state_.streams[actor - state_.hosts.size()];
  Op& op = state_.ops[stream.ops.front()];
  fruitless_queries_ = 0;
  try {
    runner_.run(op);
  } catch (const Finding& finding) {
    stop(finding.kind(), finding.what());
  } catch (const std::exception& error) {
    stop(Verdict::Kind::host_error, fmt::format("{}: {}", state_.describe(op.id), error.what()));
  }
  if (state_.trace.size() % kForgetEvery == 0) {
    const VectorClock covered = state_.covered_by_all();
    state_.races.forget(covered);
    state_.counters.forget(covered);
  }
}

void Machine::guarded(const std::function<void()>& body) {
  try {
    body();
  } catch (const Finding& finding) {
    stop(finding.kind(), finding.what());
    throw Stopped{};
  }
}

void Machine::stop(Verdict::Kind kind, const std::string& message) {
  if (stopped_) return;
  stopped_ = true;
  verdict_ = {kind, message};
}

}  // namespace commfuse::fake
