// SPDX-License-Identifier: Apache-2.0
#include "harness/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "harness/calibration.h"
#include "harness/case_record.h"
#include "harness/check.h"
#include "harness/environment.h"
#include "harness/fault.h"
#include "harness/layer_counts.h"
#include "harness/limits.h"
#include "harness/measure.h"
#include "harness/memory.h"
#include "harness/peak.h"
#include "harness/provenance.h"
#include "harness/record/case_metrics.h"
#include "harness/record/statistics.h"
#include "harness/rotating_executor.h"
#include "harness/sim/replay_executor.h"
#include "harness/traced.h"
#include "harness/workload_collectives.h"
#include "harness/world/cores.h"
#include "harness/world/say.h"
#include "harness/world/wire.h"
#include "impls/explain.h"
#include "impls/transform.h"
#include "impls/verify.h"

namespace commfuse {
namespace {

constexpr std::int32_t kCalibrations = 3;  // tries to meet --link auto:R within kRatioTolerance
constexpr double kRatioTolerance = 0.1;
constexpr double kLaunchBound = 0.5;  // of a time that the host takes to enqueue it

/// A row on its way to a record.
struct Entry {
  const CaseRow* row = nullptr;
  Implementation implementation;
  Plan plan, quiet_plan;
  PlanFacts facts;
  PlanHandle handle = 0;
  std::optional<PlanHandle> quiet;
  std::optional<CheckReport> check;
  std::optional<CheckReport> check_again;
  Outcome outcome = Outcome::ok;
  std::string reason;
  nlohmann::ordered_json traced;  // rank 0; null where nothing is traced
  std::size_t run = 0;            // index in the measurement
  std::optional<std::size_t> quiet_run;

  [[nodiscard]] bool runs() const { return outcome == Outcome::ok; }
};

std::size_t spans_of(const Plan& plan) { return plan.ops.size() + plan.messages.size(); }

class GroupRun {
 public:
  GroupRun(const CaseGroup& cases, World& active, World& group, Launch& launch)
      : cases_(cases), active_(active), group_(group), launch_(launch), started_(now_iso8601()) {
    for (const CaseRow& row : cases.rows) {
      Entry& entry = entries_.emplace_back();
      entry.row = &row;
      if (!row.skip.empty()) skip(entry, row.skip);
    }
  }

  std::vector<Record> run() {
    if (prepare()) {
      check(entries_, &Entry::check, exact_source(), Mode::isolated);
      if (!launch_.options.check_only) sample();
    }
    return records();
  }

 private:
  static void skip(Entry& entry, std::string reason) {
    entry.outcome = Outcome::skipped;
    entry.reason = std::move(reason);
  }
  void skip_all(const std::string& reason) {
    for (Entry& entry : entries_) {
      if (entry.runs()) skip(entry, reason);
    }
  }
  [[nodiscard]] bool any_runs() const { return std::ranges::any_of(entries_, &Entry::runs); }

  // ---- before anything is allocated

  bool prepare() {
    if (!any_runs()) return false;
    workload_ = cases_.workload->build(cases_.shape, cases_.mesh.group_ranks());
    lower();
    if (!enough_sets() || !enough_memory() || !enough_cores()) return false;
    const auto phase = launch_.watchdog.guard("preparing " + cases_.title());
    std::string refusal;
    try {
      executor_ = make_executor();
    } catch (const Unsupported& error) {
      refusal = error.what();
    }
    // Groups of a mesh must agree: what one of them is refused, none has.
    if (!fits(refusal)) {
      executor_.reset();
      return false;
    }
    executor_->report_to(launch_.watchdog);
    for (Entry& entry : entries_) {
      if (!entry.runs()) continue;
      std::string reason;
      try {
        entry.handle = executor_->prepare(entry.plan);
      } catch (const Unsupported& error) {
        reason = error.what();
      }
      // Again: what a library refuses to one group, none measures.
      reason = first_text(active_, reason);
      if (!reason.empty()) {
        skip(entry, reason);
        continue;
      }
      if (entry.implementation.portion == Portion::schedule) {
        entry.quiet_plan = without_communication(entry.plan);
        entry.quiet = executor_->prepare_quiet(entry.quiet_plan, entry.handle);
      }
    }
    return any_runs();
  }

  std::unique_ptr<Executor> make_executor() {
    Backend& backend = launch_.backend;
    if (cases_.rotate) {
      return std::make_unique<RotatingExecutor>(
          backend.executors(group_, workload_, cases_.carrier, sets_));
    }
    auto executor = backend.executor(group_, workload_, cases_.carrier);
    if (!cases_.replay) return executor;
    return std::make_unique<ReplayExecutor>(group_, active_, std::move(executor),
                                            backend.op_timing(), Protocol::put);
  }

  void lower() {
    const auto phase = launch_.watchdog.guard("building plans of " + cases_.title());
    for (Entry& entry : entries_) {
      if (!entry.runs()) continue;
      entry.implementation = make_implementation(entry.row->impl, workload_);
      std::vector<Plan> plans = build_plans(entry.implementation, workload_);
      entry.facts = verify(
          plans, workload_,
          launch_.backend.completion(cases_.carrier))[static_cast<std::size_t>(group_.rank())];
      entry.plan = std::move(plans[static_cast<std::size_t>(group_.rank())]);
      damage(launch_.fault, active_.rank(), cases_.index, entry.plan);
    }
  }

  /// Skips everything for a reason, if a rank has one: what one cannot do, none does.
  bool fits(const std::string& reason) {
    const std::string first = first_text(active_, reason);
    if (!first.empty()) skip_all(first);
    return first.empty();
  }

  /// Decides how many sets take turns. What is only checked needs turns, not a cold cache.
  bool enough_sets() {
    if (!cases_.rotate) return true;
    cache_bytes_ =
        static_cast<std::int64_t>(active_.max(static_cast<double>(launch_.backend.cache_bytes())));
    const std::int64_t set = tensor_bytes(workload_);
    sets_ = launch_.options.check_only ? 2 : sets_beyond_cache(cache_bytes_, set);
    return fits(too_many_sets(sets_, cache_bytes_, set));
  }

  bool enough_memory() {
    std::int64_t rank_bytes = estimate_rank_bytes(workload_, cases_.backend);
    for (const Entry& entry : entries_) {
      if (entry.runs()) rank_bytes += entry.plan.scratch_bytes();
    }
    const auto largest = active_.max(static_cast<double>(rank_bytes * sets_));
    const std::int32_t ranks_here = node_cores(active_).ranks;
    return fits(too_little_memory(static_cast<std::int64_t>(largest) * ranks_here,
                                  launch_.backend.available_bytes(), cases_.backend));
  }

  bool enough_cores() {
    if (launch_.options.check_only) return true;
    const bool apart = cases_.transport == "paced" && !group_.one_node();
    const std::int32_t ranks_here = node_cores(active_).ranks;
    return fits(apart ? "paced needs all ranks of a group on one node"
                      : too_few_cores(cases_.transport, ranks_here, launch_.usable_cores));
  }

  // ---- correctness

  [[nodiscard]] Source exact_source() const { return {launch_.options.seed, DataMode::exact}; }
  [[nodiscard]] Source random_source(std::uint64_t turn) const {
    return {launch_.options.seed + turn, DataMode::random};
  }

  void check(std::vector<Entry>& entries, std::optional<CheckReport> Entry::*result,
             const Source& source, Mode mode) {
    const auto phase = launch_.watchdog.guard("checking " + cases_.title());
    const auto first = std::ranges::find_if(entries, &Entry::runs);
    if (first == entries.end()) return;
    load_weights(*executor_, first->handle, workload_, group_, source);
    const Checker checker(workload_, source, launch_.watchdog);
    for (Entry& entry : entries) {
      if (!entry.runs()) continue;
      const auto step =
          launch_.watchdog.guard("checking " + entry.implementation.name, describe_ops(entry.plan));
      CheckReport report =
          checker.check(*executor_, entry.handle, entry.implementation.portion, mode, group_);
      report = of_all_groups(std::move(report));
      if (report.wrong > 0) {
        entry.outcome = Outcome::wrong;
        entry.reason = fmt::format("{} of {} values wrong, first: {}", report.wrong,
                                   report.compared, report.first_wrong);
      }
      entry.*result = std::move(report);
    }
  }

  /// Groups of a mesh must agree, or some would go on alone: where one is wrong, its report counts.
  CheckReport of_all_groups(CheckReport report) {
    const std::string wrong =
        first_text(active_, report.wrong > 0 ? to_json(report).dump() : std::string());
    return wrong.empty() ? std::move(report)
                         : check_from_json(nlohmann::ordered_json::parse(wrong));
  }

  // ---- time

  [[nodiscard]] Entry* find(Portion portion) {
    const auto it = std::ranges::find_if(entries_, [&](const Entry& entry) {
      return entry.runs() && entry.implementation.portion == portion;
    });
    return it == entries_.end() ? nullptr : &*it;
  }

  void sample() {
    if (!any_runs()) return;
    const auto phase = launch_.watchdog.guard("sampling " + cases_.title());
    strike(launch_.fault, active_.rank(), cases_.index);
    load_random();
    warm_up();
    link_ = {cases_.link.bytes_per_second, cases_.link.latency_seconds};
    const std::optional<LinkBounds> bounds = link_bounds();
    if (cases_.link.auto_ratio > 0 && !bounds && group_.ranks() > 1) {
      return skip_all("the link cannot be calibrated: compute_only or comm_only does not run");
    }
    const std::vector<SampledPlan> plans = sampled_plans();
    SamplingRule rule{launch_.options.repetitions, 0.01, launch_.options.time_limit_s,
                      launch_.options.seed};
    for (std::int32_t turn = 1;; ++turn) {
      if (bounds) {
        link_ = calibrate_link(active_, *executor_, *bounds, cases_.link.auto_ratio, rule,
                               launch_.watchdog);
      }
      executor_->set_link(link_);
      measurement_ = measure(
          active_, *executor_, plans, cases_.mode, launch_.options.iterations, rule,
          launch_.watchdog, [&] { return launch_.backend.read_device(); }, observer(plans.size()));
      // One limit for all turns, by the clock of rank 0.
      rule.time_limit_s -= measurement_.report.wall_s;
      const bool again = active_.rank() == 0 && bounds && turn < kCalibrations && ratio_is_off() &&
                         rule.time_limit_s > measurement_.report.wall_s;
      if (active_.max(again ? 1 : 0) == 0) break;
    }
    trace();
    check(entries_, &Entry::check_again, random_source(2), cases_.mode);
    record_costs();
  }

  ObserveIteration observer(std::size_t runs) {
    if (launch_.costs == nullptr) return {};
    op_times_.resize(runs);
    return [this](std::size_t run, const Timeline& timeline) {
      append_op_times(timeline, op_times_[run]);
    };
  }

  /// Of what runs alone, and is not wrong. Collectives count where a library moved data within a
  /// node, which is what the fit of a step is about: those of a stated link say nothing new.
  void record_costs() {
    if (launch_.costs == nullptr) return;
    const bool real_link = cases_.link.text.empty() && active_.one_node();
    for (const Entry& entry : entries_) {
      if (!entry.runs()) continue;
      if (entry.quiet_run) launch_.costs->add(entry.quiet_plan, op_times_[*entry.quiet_run], "");
      const Portion portion = entry.implementation.portion;
      if (portion == Portion::compute_only || (portion == Portion::comm_only && real_link)) {
        launch_.costs->add(entry.plan, op_times_[entry.run], cases_.transport);
      }
    }
  }

  /// Beside the samples, which a profiler would slow down.
  void trace() {
    for (Entry& entry : entries_) {
      if (!entry.runs()) continue;
      const auto phase =
          launch_.watchdog.guard("tracing " + entry.implementation.name, describe_ops(entry.plan));
      const std::vector<double>& times = measurement_.times_ns[entry.run];
      entry.traced =
          trace_plan(active_, *executor_, entry.handle, times.empty() ? 0 : median(times));
    }
  }

  void load_random() {
    const auto phase = launch_.watchdog.guard("loading data of " + cases_.title());
    const Source source = random_source(1);
    bool weights = false;
    for (const Entry& entry : entries_) {
      if (!entry.runs()) continue;
      if (!weights) load_weights(*executor_, entry.handle, workload_, group_, source);
      weights = true;
      load_inputs(*executor_, entry.handle, workload_, entry.implementation.portion, group_,
                  source);
    }
  }

  void warm_up() {
    for (const Entry& entry : entries_) {
      if (!entry.runs()) continue;
      warm_up(entry.implementation.name, entry.plan, entry.handle);
      if (entry.quiet) warm_up(quiet_name(entry), entry.quiet_plan, *entry.quiet);
    }
  }

  void warm_up(const std::string& name, const Plan& plan, PlanHandle handle) {
    const auto phase = launch_.watchdog.guard("warming up " + name, describe_ops(plan));
    std::vector<Timeline> timelines(1);
    for (std::int32_t i = 0; i < launch_.options.warmup * sets_; ++i) {  // in every set
      executor_->run(handle, Mode::isolated, timelines);
    }
  }

  /// The bounds that --link auto:R is about; nothing where no link is to be found.
  std::optional<LinkBounds> link_bounds() {
    const Entry* compute = find(Portion::compute_only);
    const Entry* communication = find(Portion::comm_only);
    if (cases_.link.auto_ratio == 0 || compute == nullptr || communication == nullptr) return {};
    if (communication->facts.bytes_sent == 0) return {};  // one rank
    return LinkBounds{sampled(*compute), sampled(*communication), communication->facts.bytes_sent};
  }

  /// Whether R as it was run is off by more than a tenth.
  bool ratio_is_off() {
    if (measurement_.report.repetitions == 0) return false;
    const double error = ratio_error(measurement_.times_ns[find(Portion::comm_only)->run],
                                     measurement_.times_ns[find(Portion::compute_only)->run],
                                     cases_.link.auto_ratio);
    return std::abs(error - 1) > kRatioTolerance;
  }

  static std::string quiet_name(const Entry& entry) {
    return entry.implementation.name + " without communication";
  }

  static Watchdog::Describe describe_ops(const Plan& plan) {
    return [&plan](std::uint64_t op) { return describe(plan, static_cast<OpId>(op)); };
  }

  static SampledPlan sampled(const Entry& entry) {
    return {entry.implementation.name, describe_ops(entry.plan), entry.handle,
            spans_of(entry.plan)};
  }

  std::vector<SampledPlan> sampled_plans() {
    std::vector<SampledPlan> plans;
    for (Entry& entry : entries_) {
      if (!entry.runs()) continue;
      entry.run = plans.size();
      plans.push_back(sampled(entry));
      if (!entry.quiet) continue;
      entry.quiet_run = plans.size();
      plans.push_back({quiet_name(entry), describe_ops(entry.quiet_plan), *entry.quiet,
                       spans_of(entry.quiet_plan)});
    }
    return plans;
  }

  // ---- records

  std::vector<Record> records() {
    std::vector<Record> records;
    if (active_.rank() != 0) return records;
    for (Entry& entry : entries_) {
      // A reference that is wrong must not go unseen.
      if (entry.row->wanted || entry.outcome == Outcome::wrong) records.push_back(record(entry));
    }
    return records;
  }

  Record record(Entry& entry) {
    Record record = record_of(cases_, *entry.row);
    record.backend = launch_.backend.name();
    record.clock = cases_.replay ? Clock::replayed : Clock::wall;
    record.outcome = entry.outcome;
    record.reason = entry.reason;
    const bool wrong_later = entry.check_again && entry.check_again->wrong > 0;
    record.check = wrong_later ? entry.check_again : entry.check;
    record.environment = launch_.environment;
    record.time = started_;
    record.details["seed"] = launch_.options.seed;
    if (!entry.traced.is_null()) record.details["traced"] = entry.traced;
    record.details["cache"] = {{"mode", cases_.rotate ? "rotate" : "hot"}, {"sets", sets_}};
    if (cases_.rotate) record.details["cache"]["bytes"] = cache_bytes_;
    if (executor_) {
      auto facts = executor_->facts();
      if (entry.runs()) facts.merge(executor_->plan_facts(entry.handle));
      if (!facts.empty()) record.details["executor"] = facts;
    }
    if (entry.check_again) record.details["check_again"] = to_json(*entry.check_again);
    if (entry.runs() && !measurement_.runs.empty()) add_measurement(record, entry);
    return record;
  }

  void add_measurement(Record& record, Entry& entry) {
    const SamplingReport& report = measurement_.report;
    record.details["sampling"] = {{"repetitions", report.repetitions},
                                  {"converged", report.converged},
                                  {"stopped", report.reason},
                                  {"wall_s", report.wall_s},
                                  {"seed", report.seed},
                                  {"order", report.order}};
    if (!cases_.link.text.empty()) {
      record.details["link"] = {{"bytes_per_second", link_.bytes_per_second},
                                {"latency_s", link_.latency_seconds}};
    }
    if (report.repetitions == 0) return;
    if (const WireReport& wire = measurement_.wire[entry.run]; wire.transfers > 0) {
      record.details["wire"] = {{"transfers", wire.transfers},
                                {"late", wire.late},
                                {"latest_ns", wire.latest_ns},
                                {"copy_ns", wire.copy_ns}};
    }
    if (const double issue_ns = measurement_.issue_ns[entry.run]; issue_ns > 0) {
      const double share = issue_ns / median(measurement_.times_ns[entry.run]);
      record.details["issue"] = {
          {"host_ns", issue_ns}, {"share", share}, {"launch_bound", share > kLaunchBound}};
      if (share > kLaunchBound) {
        say(fmt::format("{} is launch-bound: the host takes {:.0f} % of its time to enqueue it{}",
                        record.id, 100 * share,
                        launch_.options.settings.graph ? "" : "; see --graph"));
      }
    }
    if (auto state = device_state_details(measurement_.device[entry.run]); !state.is_null()) {
      record.details["device_state"] = std::move(state);
    }
    CaseSamples samples;
    const Portion portion = entry.implementation.portion;
    samples.kind = portion == Portion::schedule       ? RowKind::schedule
                   : portion == Portion::compute_only ? RowKind::compute_only
                                                      : RowKind::comm_only;
    const auto samples_of = [&](const Entry* other) {
      return other ? &measurement_.runs[other->run] : nullptr;
    };
    samples.run = samples_of(&entry);
    if (entry.quiet_run) samples.quiet = &measurement_.runs[*entry.quiet_run];
    samples.compute_only = samples_of(find(Portion::compute_only));
    samples.comm_only = samples_of(find(Portion::comm_only));
    const auto plain = std::ranges::find_if(entries_, [](const Entry& other) {
      return other.runs() && other.implementation.name == "plain";
    });
    samples.plain = samples_of(plain == entries_.end() ? nullptr : &*plain);
    samples.flops_per_rank = portion == Portion::comm_only ? 0 : workload_.model_flops;
    samples.layer = layer_counts_of(workload_);
    const Peak measured{std::string(launch_.backend.peak_name()), launch_.peak_flops};
    const Peak peak = reference_peak(launch_.options, launch_.device, cases_.shape.dtype, measured);
    samples.peak_flops_per_second = peak.flops_per_second;
    samples.peak_name = peak.name;
    samples.measured_peak_flops_per_second = measured.flops_per_second;
    samples.measured_peak_name = measured.name;
    samples.moved_bytes = entry.facts.bytes_sent;
    samples.link_bytes_per_second = link_.bytes_per_second;
    samples.collectives = collectives_of(workload_);
    for (const auto& host : launch_.environment.value("hosts", nlohmann::ordered_json::array())) {
      samples.hosts.push_back(host.get<std::string>());
    }
    samples.hosts.resize(static_cast<std::size_t>(active_.ranks()));
    add_metrics(record, samples);
  }

  const CaseGroup& cases_;
  World& active_;
  World& group_;
  Launch& launch_;
  std::string started_;
  Workload workload_;
  std::vector<Entry> entries_;
  std::int32_t sets_ = 1;
  std::int64_t cache_bytes_ = 0;  // that sets are to exceed
  std::unique_ptr<Executor> executor_;
  LinkSpeed link_;
  Measurement measurement_;
  std::vector<std::vector<OpTime>> op_times_;  // by run; where they are recorded
};

}  // namespace

std::vector<Record> run_group(const CaseGroup& cases, World& active, World& group, Launch& launch) {
  return GroupRun(cases, active, group, launch).run();
}

}  // namespace commfuse
