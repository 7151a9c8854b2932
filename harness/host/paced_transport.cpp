// SPDX-License-Identifier: Apache-2.0
#include "harness/host/paced_transport.h"

#include <vector>

#include "harness/host/paced_control.h"
#include "harness/host/paced_wire.h"
#include "harness/world/clock.h"

namespace commfuse {
namespace {

std::size_t count_receives(const Program& program) {
  std::size_t receives = 0;
  for (const Event& event : program.events()) receives += event.kind == EventKind::receive;
  return receives;
}

PacedControl::MeetingCounts count_collectives(const Program& program) {
  PacedControl::MeetingCounts counts{};
  for (const Event& event : program.events()) {
    if (event.kind == EventKind::collective) ++counts[static_cast<std::size_t>(event.lane)];
  }
  return counts;
}

/// What peers must know about this rank's receives and collectives before the first run.
void describe_own(const Program& program, PacedControl& control) {
  Landing* landing = control.landings(control.rank()).data();
  for (EventId id = 0; id < program.events().size(); ++id) {
    const Event& event = program.event(id);
    if (event.kind != EventKind::receive) continue;
    const Message& message = program.message(id);
    landing->source = message.peer;
    landing->lane = event.lane;
    landing->feeds_transport = event.feeds_transport;
    landing->feeds_next_transport = event.feeds_next_transport;
    landing->sequence = message.sequence;
    landing->view = message.view;
    ++landing;
  }
  Meeting* meeting = control.meetings(control.rank()).data();
  for (const Lane lane : {Lane::compute, Lane::gather, Lane::scatter}) {
    for (const EventId id : program.transfers(lane)) {
      if (program.event(id).kind != EventKind::collective) continue;
      meeting->send = program.collective(id).send;
      meeting->receive = program.collective(id).receive;
      ++meeting;
    }
  }
}

/// Made in this order: control memory, filled in and published, then the wire, which reads the
/// peers' part of it.
PacedControl published_control(World& group, const Program& program) {
  PacedControl control(group, count_receives(program), count_collectives(program));
  describe_own(program, control);
  control.publish();
  return control;
}

class PacedChannel final : public Channel {
 public:
  PacedChannel(World& group, const Program& program, std::span<const Storage> storages,
               const LinkSpeed& link, WireReport& report, WireThread& thread)
      : program_(program),
        link_(link),
        thread_(thread),
        control_(published_control(group, program)),
        wire_(program, storages, control_, report) {}

  // Where an exception ended a run early, the wire still waits for what will never come.
  ~PacedChannel() override {
    if (!running_) return;
    wire_.give_up();
    thread_.wait_idle();
  }
  PacedChannel(const PacedChannel&) = delete;
  PacedChannel& operator=(const PacedChannel&) = delete;

  void begin(const Run& run) override {
    run_ = run;
    wire_.begin(run, link_);
    running_ = true;
    thread_.start(wire_);
  }

  void completed(EventId id, Epoch epoch, std::int64_t begin_ns, std::int64_t end_ns) override {
    const Event& event = program_.event(id);
    const bool feeds_next = event.feeds_next_transport && run_.timelines.size() > 1;
    if (!event.feeds_transport && !feeds_next) return;
    wire_.completion(id).publish(epoch, begin_ns, end_ns);
    control_.wire_bell(control_.rank()).ring();
  }

  std::int64_t wait(EventId id, Epoch epoch) override {
    const Completion& completion = wire_.completion(id);
    control_.compute_bell(control_.rank())
        .wait_until([&] { return completion.reached(epoch); }, kNeverNs);
    if (monotonic_ns() < completion.end_ns) sleep_until(completion.end_ns, kSpinNs);
    return completion.end_ns;
  }

  std::int64_t collective(EventId id, Epoch epoch, std::int64_t ready_ns) override {
    wire_.call(id, epoch, ready_ns);
    return wait(id, epoch);
  }

  void finish() override {
    thread_.wait_idle();
    running_ = false;
    for (const Lane lane : {Lane::compute, Lane::gather, Lane::scatter}) {
      for (const EventId id : program_.transfers(lane)) {
        wait(id, run_.last());
        if (program_.event(id).kind != EventKind::receive) continue;
        Span& span = run_.span(run_.last(), program_.event(id));
        span.begin_ns = wire_.completion(id).begin_ns;
        span.end_ns = wire_.completion(id).end_ns;
      }
    }
  }

 private:
  const Program& program_;
  const LinkSpeed& link_;  // the transport's, as it is when a run begins
  WireThread& thread_;
  PacedControl control_;
  PacedWire wire_;
  Run run_;
  bool running_ = false;
};

}  // namespace

PacedTransport::PacedTransport(World& group) : group_(group) {}

std::unique_ptr<Channel> PacedTransport::open(const Program& program,
                                              std::span<const Storage> storages) {
  return std::make_unique<PacedChannel>(group_, program, storages, link_, report_, thread_);
}

}  // namespace commfuse
