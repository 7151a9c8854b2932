// SPDX-License-Identifier: Apache-2.0
#include "harness/record/case_metrics.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "harness/record/statistics.h"

namespace commfuse {
namespace {

using nlohmann::ordered_json;

double longest_window(const RankSummaries& iteration) {
  std::int64_t longest = 0;
  for (const IterationSummary& rank : iteration) longest = std::max(longest, rank.window);
  return static_cast<double>(longest);
}

bool disturbed(const RankSummaries& iteration) {
  return std::ranges::any_of(iteration,
                             [](const IterationSummary& rank) { return rank.preempted(); });
}

/// The iterations of a repetition that count: the undisturbed ones, or all if there is none.
struct Countable {
  std::vector<const RankSummaries*> iterations;  // by time
  bool clean = true;

  [[nodiscard]] const RankSummaries& middle() const {
    return *iterations[(iterations.size() - 1) / 2];
  }
};

Countable countable(const Repetition& repetition) {
  Countable result;
  for (const RankSummaries& iteration : repetition) {
    if (!disturbed(iteration)) result.iterations.push_back(&iteration);
  }
  result.clean = !result.iterations.empty();
  if (!result.clean) {
    for (const RankSummaries& iteration : repetition) result.iterations.push_back(&iteration);
  }
  std::ranges::stable_sort(result.iterations, {}, [](const RankSummaries* iteration) {
    return longest_window(*iteration);
  });
  return result;
}

/// One repetition of all runs: what ratios and waterfalls are made of.
struct Comparison {
  std::size_t repetition = 0;
  Countable run;
  std::optional<Countable> quiet, compute_only, comm_only, plain;

  [[nodiscard]] bool clean() const {
    const auto undisturbed = [](const std::optional<Countable>& other) {
      return !other || other->clean;
    };
    return run.clean && undisturbed(quiet) && undisturbed(compute_only) && undisturbed(comm_only) &&
           undisturbed(plain);
  }
  [[nodiscard]] double t() const { return longest_window(run.middle()); }
  [[nodiscard]] std::optional<Waterfall> losses() const {
    if (!quiet || !compute_only) return std::nullopt;
    return waterfall(compute_only->middle(), quiet->middle(), run.middle());
  }
};

std::optional<double> time_of(const std::optional<Countable>& run) {
  if (!run) return std::nullopt;
  return longest_window(run->middle());
}

std::array<const RunSamples*, 5> runs_of(const CaseSamples& samples) {
  return {samples.run, samples.quiet, samples.compute_only, samples.comm_only, samples.plain};
}

CaseSamples without_empty_runs(CaseSamples samples) {
  for (const RunSamples** run :
       {&samples.run, &samples.quiet, &samples.compute_only, &samples.comm_only, &samples.plain}) {
    if (*run != nullptr && (*run)->empty()) *run = nullptr;
  }
  return samples;
}

void validate(const CaseSamples& samples) {
  if (samples.run == nullptr) {
    throw std::invalid_argument("the metrics of a case need the samples of its run");
  }
  std::optional<std::size_t> ranks;
  for (const RunSamples* run : runs_of(samples)) {
    if (run == nullptr) continue;
    for (const Repetition& repetition : run->repetitions) {
      if (repetition.empty()) throw std::invalid_argument("a repetition without iterations");
      for (const RankSummaries& iteration : repetition) {
        if (!ranks) ranks = iteration.size();
        if (iteration.empty() || iteration.size() != *ranks) {
          throw std::invalid_argument(
              fmt::format("an iteration has {} ranks, others have {}", iteration.size(), *ranks));
        }
      }
    }
  }
}

std::vector<Comparison> compare(const CaseSamples& samples) {
  std::size_t count = samples.run->repetitions.size();
  for (const RunSamples* run : runs_of(samples)) {
    if (run != nullptr) count = std::min(count, run->repetitions.size());
  }
  std::vector<Comparison> comparisons;
  for (std::size_t i = 0; i < count; ++i) {
    const auto of = [i](const RunSamples* run) -> std::optional<Countable> {
      if (run == nullptr) return std::nullopt;
      return countable(run->repetitions[i]);
    };
    comparisons.push_back({i, countable(samples.run->repetitions[i]), of(samples.quiet),
                           of(samples.compute_only), of(samples.comm_only), of(samples.plain)});
  }
  return comparisons;
}

/// The comparisons that count, and a record of the others.
std::vector<Comparison> select(const std::vector<Comparison>& comparisons, ordered_json& details) {
  std::vector<Comparison> clean;
  ordered_json preempted = ordered_json::array();
  for (const Comparison& comparison : comparisons) {
    if (comparison.clean()) {
      clean.push_back(comparison);
    } else {
      preempted.push_back(comparison.repetition);
    }
  }
  const bool too_few = clean.size() < std::min(kFewestRepetitions, comparisons.size());
  details["repetitions"] = comparisons.size();
  details["preempted"] = preempted.size();
  details["preempted_repetitions"] = std::move(preempted);
  details["preempted_used"] = too_few;
  return too_few ? comparisons : clean;
}

void add_samples(Record& record, const RunSamples& run) {
  Samples& samples = record.samples;
  samples = {};
  samples.per_rank.resize(run.repetitions.front().front().size());
  for (const Repetition& repetition : run.repetitions) {
    for (const RankSummaries& iteration : repetition) {
      samples.max_over_ranks.push_back(longest_window(iteration));
      for (std::size_t rank = 0; rank < iteration.size(); ++rank) {
        samples.per_rank[rank].push_back(static_cast<double>(iteration[rank].window));
      }
    }
  }
}

ordered_json to_json(const Distribution& distribution, std::span<const double> samples) {
  ordered_json object{
      {"count", distribution.count}, {"min", distribution.min}, {"p50", distribution.p50}};
  const auto add = [&object](const char* name, const std::optional<double>& value) {
    if (value) object[name] = *value;
  };
  add("p90", distribution.p90);
  add("p95", distribution.p95);
  add("p99", distribution.p99);
  add("p999", distribution.p999);
  object["max"] = distribution.max;
  object["mean"] = distribution.mean;
  object["cv"] = distribution.cv;
  ordered_json outliers = ordered_json::array();
  for (const std::size_t index : distribution.outliers) {
    outliers.push_back({{"index", index}, {"time", samples[index]}});
  }
  object["outliers"] = std::move(outliers);
  return object;
}

ordered_json to_json(const Waterfall& waterfall) {
  return {{"rank", waterfall.rank},
          {"t", waterfall.t},
          {"t_whole", waterfall.t_whole},
          {"decomposition", waterfall.decomposition},
          {"accumulate", waterfall.accumulate},
          {"contention", waterfall.contention},
          {"exposed", waterfall.exposed},
          {"exposed_head", waterfall.exposed_head},
          {"exposed_interior", waterfall.exposed_interior},
          {"exposed_tail", waterfall.exposed_tail},
          {"last_rank", waterfall.last_rank}};
}

/// Writes medians over repetitions into a record.
class Reducer {
 public:
  using Value = std::function<std::optional<double>(const Comparison&)>;

  Reducer(Record& record, const std::vector<Comparison>& comparisons)
      : record_(record), comparisons_(comparisons) {}

  /// Leaves the metric out where it is defined in no repetition.
  void median_of(const char* name, const char* unit, const Value& value) {
    std::vector<double> values;
    for (const Comparison& comparison : comparisons_) {
      if (const std::optional<double> defined = value(comparison)) values.push_back(*defined);
    }
    if (!values.empty()) record_.metrics[name] = {median(values), unit};
  }

  void median_of_losses(const char* name, double Waterfall::*part) {
    median_of(name, "ns", [part](const Comparison& comparison) -> std::optional<double> {
      const std::optional<Waterfall> losses = comparison.losses();
      return losses ? std::optional((*losses).*part) : std::nullopt;
    });
  }

 private:
  Record& record_;
  const std::vector<Comparison>& comparisons_;
};

void add_time(Record& record, const std::vector<Comparison>& comparisons) {
  std::vector<double> times;
  for (const Comparison& comparison : comparisons) {
    for (const RankSummaries* iteration : comparison.run.iterations) {
      times.push_back(longest_window(*iteration));
    }
  }
  record.metrics["time"] = {median(times), "ns"};
}

void add_ranks(Record& record, const std::vector<Comparison>& comparisons,
               const std::vector<std::string>& hosts) {
  std::vector<double> medians;
  for (std::size_t rank = 0; rank < comparisons.front().run.middle().size(); ++rank) {
    std::vector<double> windows;
    for (const Comparison& comparison : comparisons) {
      for (const RankSummaries* iteration : comparison.run.iterations) {
        windows.push_back(static_cast<double>((*iteration)[rank].window));
      }
    }
    medians.push_back(median(windows));
  }
  const auto slowest = std::ranges::max_element(medians);
  const auto rank = static_cast<std::size_t>(slowest - medians.begin());
  ordered_json ranks{{"median", medians}, {"slowest", rank}};
  if (rank < hosts.size()) ranks["slowest_host"] = hosts[rank];
  record.details["ranks"] = std::move(ranks);
  if (const double middle = median(medians); middle > 0) {
    record.metrics["skew"] = {*slowest / middle, "ratio"};
  }
}

void add_losses(Record& record, Reducer& reducer, const std::vector<Comparison>& comparisons) {
  std::vector<const Comparison*> by_time;
  for (const Comparison& comparison : comparisons) by_time.push_back(&comparison);
  std::ranges::stable_sort(by_time, {}, &Comparison::t);
  const Comparison& middle = *by_time[(by_time.size() - 1) / 2];
  const std::optional<Waterfall> printed = middle.losses();
  if (!printed) return;
  ordered_json waterfall = to_json(*printed);
  waterfall["repetition"] = middle.repetition;
  if (record.clock == Clock::replayed) {
    waterfall["note"] = "contention is 0 by construction: both plans replay the same op times";
  } else if (record.clock == Clock::modelled) {
    waterfall["note"] = "contention is 0 by construction: both plans have the same op times";
  }
  record.details["waterfall"] = std::move(waterfall);

  reducer.median_of_losses("decomposition", &Waterfall::decomposition);
  reducer.median_of_losses("accumulate", &Waterfall::accumulate);
  reducer.median_of_losses("contention", &Waterfall::contention);
  reducer.median_of_losses("exposed", &Waterfall::exposed);
  reducer.median_of_losses("exposed_head", &Waterfall::exposed_head);
  reducer.median_of_losses("exposed_interior", &Waterfall::exposed_interior);
  reducer.median_of_losses("exposed_tail", &Waterfall::exposed_tail);
  reducer.median_of_losses("last_rank", &Waterfall::last_rank);
  reducer.median_of("exposed_share", "share", [](const Comparison& c) -> std::optional<double> {
    const Waterfall losses = *c.losses();
    if (losses.t_whole <= 0) return std::nullopt;
    return losses.exposed / losses.t_whole;
  });
  const auto on_rank = [](const Comparison& c) -> const IterationSummary& {
    return c.run.middle()[static_cast<std::size_t>(c.losses()->rank)];
  };
  reducer.median_of("tail_span", "ns",
                    [&](const Comparison& c) { return static_cast<double>(on_rank(c).tail_span); });
  reducer.median_of("overlap_hta", "share",
                    [&](const Comparison& c) { return overlap_hta(on_rank(c)); });
}

void add_comparisons(Reducer& reducer, const CaseSamples& samples, std::int32_t ranks) {
  reducer.median_of("effective_comm", "ns", [](const Comparison& c) -> std::optional<double> {
    const std::optional<double> whole = time_of(c.compute_only);
    return whole ? std::optional(c.t() - *whole) : std::nullopt;
  });
  reducer.median_of("speedup_plain", "ratio", [](const Comparison& c) -> std::optional<double> {
    if (!c.plain || c.t() <= 0) return std::nullopt;
    return *time_of(c.plain) / c.t();
  });
  if (ranks == 1) return;  // nothing is communicated: what follows would compare noise
  reducer.median_of("hidden_share", "share", [](const Comparison& c) -> std::optional<double> {
    if (!c.plain || !c.compute_only) return std::nullopt;
    return hidden_share(c.t(), *time_of(c.compute_only), *time_of(c.plain));
  });
  reducer.median_of("overlap_omb", "share", [](const Comparison& c) -> std::optional<double> {
    if (!c.comm_only || !c.compute_only) return std::nullopt;
    return overlap_omb(c.t(), *time_of(c.compute_only), *time_of(c.comm_only));
  });
  reducer.median_of("overlap_imb_nbc", "share", [](const Comparison& c) -> std::optional<double> {
    if (!c.comm_only || !c.compute_only) return std::nullopt;
    return overlap_imb_nbc(c.t(), *time_of(c.compute_only), *time_of(c.comm_only));
  });
  if (samples.link_bytes_per_second <= 0) return;
  const auto bound = [&](const Comparison& c) -> std::optional<double> {
    const std::optional<double> whole = time_of(c.compute_only);
    if (!whole) return std::nullopt;
    return bound_ns(*whole, samples.moved_bytes, samples.link_bytes_per_second);
  };
  reducer.median_of("bound", "ns", bound);
  reducer.median_of("distance", "ratio", [&](const Comparison& c) -> std::optional<double> {
    const std::optional<double> least = bound(c);
    if (!least || *least <= 0) return std::nullopt;
    return c.t() / *least;
  });
}

ordered_json peak_json(const std::string& name, double flops_per_second) {
  return {{"name", name}, {"value", flops_per_second / 1e12}, {"unit", "TFLOP/s"}};
}

/// `amount` an iteration as a rate: in units of so much per second.
Reducer::Value rate_of(double amount, double unit) {
  return [amount, unit](const Comparison& c) -> std::optional<double> {
    if (c.t() <= 0) return std::nullopt;
    return amount / c.t() * 1e9 / unit;
  };
}

/// Above all of the peak, by what is computed: then the peak is too low.
bool exceeds_peak(const Record& record) {
  return std::ranges::any_of(std::array{"flops_utilisation", "mfu", "hfu"}, [&](const char* name) {
    const auto share = record.metrics.find(name);
    return share != record.metrics.end() && share->second.value > kAbovePeak;
  });
}

void add_utilisation(Record& record, Reducer& reducer, const CaseSamples& samples) {
  if (samples.flops_per_rank <= 0) return;
  const auto flops = static_cast<double>(samples.flops_per_rank);
  reducer.median_of("tflops_per_rank", "TFLOP/s", rate_of(flops, 1e12));
  record.details["flops_per_rank"] = samples.flops_per_rank;
  if (samples.peak_flops_per_second <= 0) return;
  record.details["peak"] = peak_json(samples.peak_name, samples.peak_flops_per_second);
  if (samples.measured_peak_flops_per_second > 0 &&
      samples.measured_peak_name != samples.peak_name) {
    record.details["measured_peak"] =
        peak_json(samples.measured_peak_name, samples.measured_peak_flops_per_second);
  }
  const double peak = samples.peak_flops_per_second;
  reducer.median_of("flops_utilisation", "share", rate_of(flops, peak));
  if (samples.layer) {
    for (const CountedShare& share : samples.layer->shares) {
      reducer.median_of(share.metric.c_str(), "share", rate_of(share.flops_per_rank, peak));
    }
  }
  if (exceeds_peak(record)) record.details["peak"]["exceeded"] = true;
}

/// As if the other layers of the model took as long, one after the other.
void add_extrapolation(Record& record, Reducer& reducer, const LayerCounts& layer) {
  const double layers = layer.model_layers;
  reducer.median_of("extrapolated_time", "ns",
                    [layers](const Comparison& c) { return layers * c.t(); });
  reducer.median_of("extrapolated_tokens_per_s", "tokens/s",
                    rate_of(static_cast<double>(layer.tokens), layers));
  record.details["extrapolation"] = {
      {"model", layer.model},
      {"layers", layer.model_layers},
      {"time", "of this pass of one layer, times layers"},
      {"leaves_out", "embedding, output projection, loss, optimizer, pipeline"}};
}

void add_layer(Record& record, Reducer& reducer, const LayerCounts& layer) {
  ordered_json counts{{"tokens", layer.tokens}};
  for (const CountedShare& share : layer.shares) {
    counts[share.metric] = {{"flops_per_rank", share.flops_per_rank},
                            {"convention", share.convention}};
  }
  record.details["layer"] = std::move(counts);
  reducer.median_of("tokens_per_s", "tokens/s", rate_of(static_cast<double>(layer.tokens), 1));
  if (layer.model_layers > 0) add_extrapolation(record, reducer, layer);
}

void add_bandwidths(Reducer& reducer, const CaseSamples& samples, std::int32_t ranks) {
  std::int64_t array_bytes = 0;
  double bus_bytes = 0;
  for (const CollectiveBytes& collective : samples.collectives) {
    array_bytes += collective.array_bytes;
    bus_bytes += static_cast<double>(collective.array_bytes) * busbw_factor(collective.name, ranks);
  }
  if (array_bytes <= 0) return;
  const auto algorithm = [array_bytes](const Comparison& c) -> std::optional<double> {
    if (c.t() <= 0) return std::nullopt;
    return algbw(array_bytes, c.t());
  };
  reducer.median_of("algbw", "B/s", algorithm);
  reducer.median_of("busbw", "B/s", [&](const Comparison& c) -> std::optional<double> {
    const std::optional<double> rate = algorithm(c);
    if (!rate) return std::nullopt;
    return *rate * bus_bytes / static_cast<double>(array_bytes);
  });
}

}  // namespace

void add_metrics(Record& record, const CaseSamples& samples) {
  const CaseSamples measured = without_empty_runs(samples);
  validate(measured);
  if (record.details.is_null()) record.details = ordered_json::object();
  add_samples(record, *measured.run);
  const std::vector<double>& times = record.samples.max_over_ranks;
  record.details["distribution"] = to_json(distribution(times), times);

  const std::vector<Comparison> used = select(compare(measured), record.details);
  Reducer reducer(record, used);
  add_time(record, used);
  add_ranks(record, used, measured.hosts);
  reducer.median_of("t_whole", "ns", [](const Comparison& c) { return time_of(c.compute_only); });
  reducer.median_of("r_effective", "ratio", [](const Comparison& c) -> std::optional<double> {
    if (!c.comm_only || !c.compute_only || *time_of(c.compute_only) <= 0) return std::nullopt;
    return *time_of(c.comm_only) / *time_of(c.compute_only);
  });
  if (measured.kind == RowKind::schedule) {
    add_losses(record, reducer, used);
    add_comparisons(reducer, measured, record.ranks);
  }
  if (measured.kind == RowKind::comm_only) {
    add_bandwidths(reducer, measured, record.ranks);
  } else {
    add_utilisation(record, reducer, measured);
    if (measured.layer) add_layer(record, reducer, *measured.layer);
  }
}

}  // namespace commfuse
