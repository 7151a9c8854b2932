// SPDX-License-Identifier: Apache-2.0
#include "harness/host/paced_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "harness/host/kernels.h"
#include "harness/world/clock.h"

namespace commfuse {
namespace {

std::int64_t busy_ns(const LinkSpeed& link, std::int64_t bytes) {
  if (link.bytes_per_second <= 0) return 0;
  return std::llround(static_cast<double>(bytes) / link.bytes_per_second * 1e9);
}

std::int64_t latency_ns(const LinkSpeed& link) { return std::llround(link.latency_seconds * 1e9); }

bool sums(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_reduce;
}

}  // namespace

PacedWire::PacedWire(const Program& program, std::span<const Storage> storages,
                     PacedControl& control, WireReport& report)
    : program_(program),
      storages_(storages),
      control_(control),
      report_(report),
      rank_(control.rank()),
      own_completions_(std::make_unique<Completion[]>(program.events().size())),
      calls_(std::make_unique<Completion[]>(program.events().size())),
      terms_(static_cast<std::size_t>(control.ranks())),
      to_wake_(static_cast<std::size_t>(control.ranks())) {
  for (EventId id = 0; id < program.events().size(); ++id) {
    completions_.push_back(&own_completions_[id]);
  }
  find_landings();
  number_meetings();
  for (const Lane lane : {Lane::compute, Lane::gather, Lane::scatter}) {
    if (program.transfers(lane).empty()) continue;
    lanes_.push_back({LaneCursor(program, lane, EventKind::send),
                      LaneCursor(program, lane, EventKind::receive)});
  }
}

void PacedWire::find_landings() {
  landings_.resize(program_.plan().messages.size());
  std::size_t own = 0;
  for (EventId id = 0; id < program_.events().size(); ++id) {
    const Event& event = program_.event(id);
    if (event.kind == EventKind::receive) {
      Landing& landing = control_.landings(rank_)[own++];
      landings_[event.message] = &landing;
      completions_[id] = &landing.arrival;
    } else if (event.kind == EventKind::send) {
      const Message& message = program_.message(id);
      const auto theirs = control_.landings(message.peer);
      const auto found = std::find_if(theirs.begin(), theirs.end(), [&](const Landing& landing) {
        return landing.source == rank_ && landing.lane == event.lane &&
               landing.sequence == message.sequence;
      });
      if (found == theirs.end() || found->view.elements() != message.view.elements()) {
        throw std::runtime_error(fmt::format("message {} from rank {} meets no receive of rank {}",
                                             event.message, rank_, message.peer));
      }
      landings_[event.message] = &*found;
    }
  }
}

void PacedWire::number_meetings() {
  meetings_.resize(program_.events().size());
  std::uint32_t next = 0;
  for (const Lane lane : {Lane::compute, Lane::gather, Lane::scatter}) {
    for (const EventId id : program_.transfers(lane)) {
      if (program_.event(id).kind == EventKind::collective) meetings_[id] = next++;
    }
  }
}

void PacedWire::begin(const Run& run, const LinkSpeed& link) {
  run_ = run;
  link_ = link;
  for (LaneState& lane : lanes_) {
    lane.sends.begin(run);
    lane.receives.begin(run);
    lane.send_floor_ns = lane.receive_floor_ns = run.start_ns;
    lane.attendance = Attendance::away;
  }
}

void PacedWire::call(EventId event, Epoch epoch, std::int64_t ready_ns) {
  calls_[event].publish(epoch, ready_ns, ready_ns);
  control_.wire_bell(rank_).ring();
}

void PacedWire::give_up() {
  gave_up_.store(true, std::memory_order_release);
  control_.wire_bell(rank_).ring();
}

void PacedWire::move_everything() noexcept {
  Doorbell& bell = control_.wire_bell(rank_);
  for (;;) {
    const std::uint32_t seen = bell.sequence();
    if (gave_up_.load(std::memory_order_acquire)) return;
    const std::int64_t look_again_ns = move_what_can_move();
    if (finished()) return;
    bell.wait_past(seen, look_again_ns);
  }
}

bool PacedWire::finished() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const LaneState& lane) {
    return lane.sends.finished() && lane.receives.finished();
  });
}

std::int64_t PacedWire::move_what_can_move() {
  for (bool moved = true; moved;) {
    moved = false;
    now_ns_ = monotonic_ns();
    look_again_ns_ = kNeverNs;
    // Credits first: they let peers go on while this thread copies.
    for (LaneState& lane : lanes_) moved |= post_receives(lane);
    for (std::int32_t r = 0; r < control_.ranks(); ++r) {
      if (to_wake_[static_cast<std::size_t>(r)]) control_.wire_bell(r).ring();
      to_wake_[static_cast<std::size_t>(r)] = false;
    }
    for (LaneState& lane : lanes_) moved |= attend_collective(lane);
    if (const Candidate next = first_ready_send(); next.lane != nullptr) {
      send(*next.lane, next.ready_ns);
      moved = true;
    }
  }
  return look_again_ns_;
}

bool PacedWire::due(std::int64_t ready_ns) {
  if (ready_ns <= now_ns_) return true;
  look_again_ns_ = std::min(look_again_ns_, ready_ns);
  return false;
}

std::optional<std::int64_t> PacedWire::dependencies_done(EventId event, Epoch epoch) const {
  std::int64_t done_ns = 0;
  for (const EventId before : program_.dependencies(event)) {
    if (!completions_[before]->reached(epoch)) return std::nullopt;
    done_ns = std::max(done_ns, completions_[before]->end_ns);
  }
  if (epoch == run_.first) return done_ns;
  for (const EventId before : program_.earlier_iteration(event)) {
    if (!completions_[before]->reached(epoch - 1)) return std::nullopt;
    done_ns = std::max(done_ns, completions_[before]->end_ns);
  }
  return done_ns;
}

bool PacedWire::post_receives(LaneState& lane) {
  bool posted = false;
  while (lane.receives.at_message()) {
    const EventId id = lane.receives.event();
    const Epoch epoch = lane.receives.epoch();
    const auto done_ns = dependencies_done(id, epoch);
    if (!done_ns) break;
    const std::int64_t ready_ns = std::max(*done_ns, lane.receive_floor_ns);
    if (!due(ready_ns)) break;

    Landing& landing = *landings_[program_.event(id).message];
    if (epoch > run_.first) {  // the arrival before is complete, and about to be overwritten
      Span& span = run_.span(epoch - 1, program_.event(id));
      span.begin_ns = landing.arrival.begin_ns;
      span.end_ns = landing.arrival.end_ns;
    }
    landing.posted_ns = ready_ns;
    landing.posted.store(epoch, std::memory_order_release);
    to_wake_[static_cast<std::size_t>(landing.source)] = true;
    lane.receive_floor_ns = ready_ns;
    lane.receives.advance();
    posted = true;
  }
  return posted;
}

PacedWire::Candidate PacedWire::first_ready_send() {
  Candidate first;
  for (LaneState& lane : lanes_) {
    if (!lane.sends.at_message()) continue;
    const EventId id = lane.sends.event();
    const Landing& landing = *landings_[program_.event(id).message];
    if (landing.posted.load(std::memory_order_acquire) < lane.sends.epoch()) continue;
    const auto done_ns = dependencies_done(id, lane.sends.epoch());
    if (!done_ns) continue;
    const std::int64_t ready_ns = std::max({*done_ns, landing.posted_ns, lane.send_floor_ns});
    if (!due(ready_ns)) continue;
    if (first.lane == nullptr || ready_ns < first.ready_ns) first = {&lane, ready_ns};
  }
  return first;
}

void PacedWire::send(LaneState& lane, std::int64_t ready_ns) {
  const EventId id = lane.sends.event();
  const Epoch epoch = lane.sends.epoch();
  const Event& event = program_.event(id);
  const Message& message = program_.message(id);
  Landing& landing = *landings_[event.message];

  const std::int64_t busy = busy_ns(link_, message.wire_bytes);
  std::int64_t start_ns = 0;
  {
    const SharedLock lock = control_.lock();
    start_ns = control_.ports().reserve(rank_, message.peer, ready_ns, busy);
  }
  const std::int64_t computed_end_ns = start_ns + busy + latency_ns(link_);
  const std::int64_t copy_begin_ns = monotonic_ns();
  copy_view(storages_[static_cast<std::size_t>(message.peer)], landing.view,
            storages_[static_cast<std::size_t>(rank_)], message.view);
  const std::int64_t copy_end_ns = monotonic_ns();
  note_copy(copy_begin_ns, copy_end_ns, computed_end_ns);
  const std::int64_t end_ns = std::max(computed_end_ns, copy_end_ns);

  const bool wake_wire =
      landing.feeds_transport || (landing.feeds_next_transport && run_.timelines.size() > 1);
  landing.arrival.publish(epoch, start_ns, end_ns);
  control_.compute_bell(message.peer).ring();
  if (wake_wire) control_.wire_bell(message.peer).ring();

  Span& span = run_.span(epoch, event);
  span.begin_ns = start_ns;
  span.end_ns = end_ns;
  completions_[id]->publish(epoch, start_ns, end_ns);
  control_.compute_bell(rank_).ring();
  lane.send_floor_ns = ready_ns;
  lane.sends.advance();
}

void PacedWire::note_copy(std::int64_t begin_ns, std::int64_t end_ns,
                          std::int64_t computed_end_ns) {
  ++report_.transfers;
  report_.copy_ns += end_ns - begin_ns;
  if (end_ns > computed_end_ns) {
    ++report_.late;
    report_.latest_ns = std::max(report_.latest_ns, end_ns - computed_end_ns);
  }
}

Meeting& PacedWire::meeting_of(EventId event, std::int32_t rank) const {
  return control_.meetings(rank)[meetings_[event]];
}

std::int64_t PacedWire::collective_ns(EventId event) const {
  const Collective& collective = program_.collective(event);
  const std::int64_t times = collective.kind == CollectiveKind::all_reduce ? 2 : 1;
  const std::int64_t steps = times * (control_.ranks() - 1);
  return steps * latency_ns(link_) +
         busy_ns(link_, least_bytes_sent(collective, control_.ranks(), program_.plan().tensors));
}

std::byte* PacedWire::sent_by(EventId event, std::int32_t rank) const {
  return storages_[static_cast<std::size_t>(rank)].at(meeting_of(event, rank).send);
}

std::byte* PacedWire::received_by(EventId event, std::int32_t rank) const {
  return storages_[static_cast<std::size_t>(rank)].at(meeting_of(event, rank).receive);
}

std::optional<std::int64_t> PacedWire::collective_ready(const LaneState& lane) const {
  const EventId id = lane.sends.event();
  const Epoch epoch = lane.sends.epoch();
  if (program_.event(id).lane != Lane::compute) return dependencies_done(id, epoch);
  if (!calls_[id].reached(epoch)) return std::nullopt;
  return calls_[id].end_ns;
}

bool PacedWire::attend_collective(LaneState& lane) {
  if (!lane.sends.at_collective() || !lane.receives.at_collective() ||
      lane.sends.event() != lane.receives.event() || lane.sends.epoch() != lane.receives.epoch()) {
    return false;
  }
  const EventId id = lane.sends.event();
  const Epoch epoch = lane.sends.epoch();
  Meeting& meeting = meeting_of(id, 0);
  if (lane.attendance == Attendance::away) {
    const auto done_ns = collective_ready(lane);
    if (!done_ns) return false;
    const std::int64_t ready_ns = std::max({*done_ns, lane.send_floor_ns, lane.receive_floor_ns});
    if (!due(ready_ns)) return false;
    arrive(meeting, id, epoch, ready_ns);
    lane.attendance = Attendance::arrived;
    return true;
  }
  if (lane.attendance == Attendance::arrived) {
    if (meeting.started.load(std::memory_order_acquire) < epoch) return false;
    move_part(id, epoch, meeting);
    lane.attendance = Attendance::moved;
    return true;
  }
  if (meeting.ended.load(std::memory_order_acquire) < epoch) return false;
  leave(lane, meeting);
  return true;
}

void PacedWire::arrive(Meeting& meeting, EventId event, Epoch epoch, std::int64_t ready_ns) {
  {
    const SharedLock lock = control_.lock();
    meeting.latest_ns = std::max(meeting.latest_ns, ready_ns);
    if (++meeting.arrived < control_.ranks()) return;
    meeting.start_ns = control_.ports().reserve_all(meeting.latest_ns, collective_ns(event));
    meeting.arrived = 0;
    meeting.latest_ns = 0;
    meeting.started.store(epoch, std::memory_order_release);
  }
  ring_all_wires();
}

/// all_gather, all_to_all: a block of every rank into this rank's memory.
void PacedWire::copy_blocks(EventId event) {
  const Collective& collective = program_.collective(event);
  const std::int64_t elements = collective.receive.elements() / control_.ranks();
  const std::int64_t bytes =
      elements * bytes_of(program_.plan().tensors[collective.receive.tensor].dtype);
  const bool gathers = collective.kind == CollectiveKind::all_gather;
  for (std::int32_t r = 0; r < control_.ranks(); ++r) {
    std::byte* const target = received_by(event, rank_) + r * bytes;
    const std::byte* const source = sent_by(event, r) + (gathers ? 0 : rank_ * bytes);
    if (source != target) std::memcpy(target, source, static_cast<std::size_t>(bytes));
  }
}

/// reduce_scatter, all_reduce: this rank's block of the sum, in an all_reduce also into the memory
/// of the others, which thus have the same bits.
void PacedWire::sum_blocks(EventId event) {
  const Collective& collective = program_.collective(event);
  const DType dtype = program_.plan().tensors[collective.send.tensor].dtype;
  const std::int64_t all = collective.send.elements();
  const std::int64_t first = rank_ * all / control_.ranks();
  const std::int64_t count = (rank_ + 1) * all / control_.ranks() - first;
  for (std::int32_t r = 0; r < control_.ranks(); ++r) {
    terms_[static_cast<std::size_t>(r)] = sent_by(event, r) + first * bytes_of(dtype);
  }
  const bool everywhere = collective.kind == CollectiveKind::all_reduce;
  const std::int64_t offset = everywhere ? first * bytes_of(dtype) : 0;
  std::byte* const sum = received_by(event, rank_) + offset;
  reduce_blocks(dtype, sum, terms_, count);
  for (std::int32_t r = 0; everywhere && r < control_.ranks(); ++r) {
    if (r == rank_) continue;
    std::memcpy(received_by(event, r) + offset, sum,
                static_cast<std::size_t>(count * bytes_of(dtype)));
  }
}

void PacedWire::move_part(EventId event, Epoch epoch, Meeting& meeting) {
  const std::int64_t begin_ns = monotonic_ns();
  if (sums(program_.collective(event).kind)) {
    sum_blocks(event);
  } else {
    copy_blocks(event);
  }
  const std::int64_t end_ns = monotonic_ns();
  const std::int64_t computed_end_ns = meeting.start_ns + collective_ns(event);
  note_copy(begin_ns, end_ns, computed_end_ns);
  {
    const SharedLock lock = control_.lock();
    meeting.moved_ns = std::max(meeting.moved_ns, end_ns);
    if (++meeting.moved < control_.ranks()) return;
    meeting.end_ns = std::max(computed_end_ns, meeting.moved_ns);
    meeting.moved = 0;
    meeting.moved_ns = 0;
    meeting.ended.store(epoch, std::memory_order_release);
  }
  ring_all_wires();
}

void PacedWire::leave(LaneState& lane, const Meeting& meeting) {
  const EventId id = lane.sends.event();
  const Epoch epoch = lane.sends.epoch();
  Span& span = run_.span(epoch, program_.event(id));
  span.begin_ns = meeting.start_ns;
  span.end_ns = meeting.end_ns;
  lane.send_floor_ns = lane.receive_floor_ns = meeting.end_ns;
  lane.attendance = Attendance::away;
  completions_[id]->publish(epoch, span.begin_ns, span.end_ns);
  control_.compute_bell(rank_).ring();
  lane.sends.advance();
  lane.receives.advance();
}

void PacedWire::ring_all_wires() {
  for (std::int32_t r = 0; r < control_.ranks(); ++r) control_.wire_bell(r).ring();
}

}  // namespace commfuse
