// SPDX-License-Identifier: Apache-2.0
// --replay: the compute of a plan runs on the ranks that there are, and the event engine says when
// it would have run with a core for every rank and a stated link between them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/executor.h"
#include "harness/sim/event_graph.h"
#include "harness/world/world.h"

namespace commfuse {

/// Around the backend's own executor, which moves data untimed. Every plan has a twin without its
/// communication. A run
/// * executes the plan if data was written since it last was executed, so that what is read
///   afterwards is what the plan made of it;
/// * measures each op once, by running the twin, unless the other of the two has just done that:
///   both replay the same times, so nothing that differs between them is contention;
/// * hands out the timeline of its rank in simulated time, from 0. Compute spans have their
///   duration as CPU time.
class ReplayExecutor final : public Executor {
 public:
  /// Collective over `group`, whose ranks are those of the plans, and over `active`, the ranks of
  /// all groups, which make the same calls and among which turns are taken. Both outlive this.
  ReplayExecutor(World& group, World& active, std::unique_ptr<Executor> inner, OpTiming timing,
                 Protocol protocol);
  ~ReplayExecutor() override;

  PlanHandle prepare(const Plan& plan) override;
  /// Of a plan that was prepared here; once.
  PlanHandle prepare_quiet(const Plan& plan, PlanHandle origin) override;
  void write(PlanHandle plan, const View& view, std::span<const float> packed) override;
  void read(PlanHandle plan, const View& view, std::span<float> packed) override;
  void poison(PlanHandle plan) override;
  void weights_written() override;
  void set_link(const LinkSpeed& link) override { link_ = link; }
  void report_to(Watchdog& watchdog) override { inner_->report_to(watchdog); }
  /// Isolated only: throws std::invalid_argument otherwise.
  void run(PlanHandle plan, Mode mode, std::span<Timeline> timelines) override;
  [[nodiscard]] std::map<std::string, std::string> facts() const override;
  [[nodiscard]] std::map<std::string, std::string> plan_facts(PlanHandle plan) const override;

 private:
  struct Pair;
  struct Half;
  struct Handle {
    std::size_t pair = 0;
    bool quiet = false;
  };

  [[nodiscard]] Pair& pair_of(PlanHandle plan) const { return *pairs_[handles_.at(plan).pair]; }
  [[nodiscard]] Half& half_of(PlanHandle plan) const;
  void prepare_half(Half& half, std::vector<Plan> plans, const Plan& mine) const;
  [[nodiscard]] bool data_is_new(const Pair& pair) const;
  void execute(Pair& pair);
  void measure(Pair& pair);
  [[nodiscard]] std::vector<Picoseconds> run_for_times(const Pair& pair);
  void replay(const Pair& pair, const Half& half, Timeline& timeline) const;
  [[nodiscard]] std::vector<std::int64_t> simulate(const Pair& pair, const Half& half) const;

  World& group_;
  World& active_;
  std::unique_ptr<Executor> inner_;
  OpTiming timing_;
  Protocol protocol_;
  LinkSpeed link_;
  std::uint64_t data_ = 1;  // counts what was written
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::vector<Handle> handles_;
};

}  // namespace commfuse
