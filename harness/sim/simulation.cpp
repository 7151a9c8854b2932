// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/simulation.h"

#include <algorithm>
#include <chrono>

#include "harness/plan_spans.h"
#include "harness/sim/event_engine.h"

namespace commfuse {

void Simulation::add(const Plan& plan, std::int32_t place, std::span<const Picoseconds> op_times) {
  graph_.add(plan, place, op_times);
  spans_.push_back(untimed_spans(plan));
}

void Simulation::run() {
  run([](EventGraph& graph, const Network& network) {
    EventEngine engine(graph, network);
    engine.run();
    return engine.events();
  });
}

void Simulation::run(const Engine& engine) {
  graph_.connect();
  const auto begin = std::chrono::steady_clock::now();
  events_ = engine(graph_, network_);
  engine_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Timeline Simulation::timeline(std::size_t rank) const {
  const RankEvents& events = graph_.ranks()[rank];
  Timeline timeline;
  timeline.rank = static_cast<std::int32_t>(rank);
  timeline.spans = spans_[rank];
  for (Span& span : timeline.spans) {
    const NodeId id = span.message < 0 ? events.first_op + span.op
                                       : events.first_message + static_cast<NodeId>(span.message);
    span.begin_ns = nanoseconds(graph_.nodes()[id].begin);
    span.end_ns = nanoseconds(graph_.nodes()[id].end);
  }
  timeline.end_ns = nanoseconds(end(rank));
  return timeline;
}

Picoseconds Simulation::end(std::size_t rank) const {
  const RankEvents& events = graph_.ranks()[rank];
  Picoseconds last = 0;
  for (const EventNode& node :
       graph_.nodes().subspan(events.first_op, events.end - events.first_op))
    last = std::max(last, node.end);
  return last;
}

Picoseconds Simulation::end() const {
  Picoseconds last = 0;
  for (std::size_t rank = 0; rank < ranks(); ++rank) last = std::max(last, end(rank));
  return last;
}

}  // namespace commfuse
