// SPDX-License-Identifier: Apache-2.0
#include "tests/record/sample_records.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace commfuse::test {
namespace {

constexpr std::int64_t kMicrosecond = 1000;
constexpr std::size_t kRepetitions = 12;
constexpr std::int64_t kModelFlops = 2LL * 1024 * 4096 * 7168;
constexpr std::int64_t kComputeOnly = 61'300 * kMicrosecond;
constexpr std::int64_t kCommOnly = 24'500 * kMicrosecond;
constexpr std::int64_t kPlainTail = 24'700 * kMicrosecond;
constexpr Parts kPlain{kComputeOnly + 200 * kMicrosecond, 0, 0, kPlainTail, 0};

Parts scaled(const Parts& parts, double factor) {
  const auto scale = [factor](std::int64_t part) {
    return static_cast<std::int64_t>(factor * static_cast<double>(part));
  };
  return {scale(parts.busy), scale(parts.head), scale(parts.interior), scale(parts.tail),
          scale(parts.overhead)};
}

/// Repetitions of two ranks; rank 1 is a little slower, repetition 7 much, repetition 4
/// interrupted.
RunSamples repeated(const Parts& parts) {
  std::vector<RankSummaries> iterations;
  for (std::size_t i = 0; i < kRepetitions; ++i) {
    const double drift = 1 + 0.001 * static_cast<double>((i * 5) % kRepetitions);
    const double slow = i == 7 ? 1.2 : 1;
    const Parts here = scaled(parts, drift * slow);
    Parts other = here;
    other.busy += 150 * kMicrosecond;
    RankSummaries ranks{i == 4 ? interrupted(here) : summary_of(here), summary_of(other)};
    for (IterationSummary& rank : ranks) {
      rank.transfer = kCommOnly;
      rank.overlapped = std::max<std::int64_t>(0, kCommOnly - rank.gap());
    }
    iterations.push_back(std::move(ranks));
  }
  return isolated(std::move(iterations));
}

RunSamples comm_only_run() {
  std::vector<RankSummaries> iterations;
  for (std::size_t i = 0; i < kRepetitions; ++i) {
    const Parts waiting{0, kCommOnly + static_cast<std::int64_t>(i) * kMicrosecond, 0, 0, 0};
    iterations.push_back({summary_of(waiting), summary_of(waiting)});
  }
  return isolated(std::move(iterations));
}

Record unfilled(const std::string& impl) {
  Record record;
  record.id = fmt::format(
      "tpsp/gemm_rs/impl:{}/model:llama3-8b/tokens:1024/dtype:fp32/pass:forward/ranks:2/"
      "backend:host"
      "/transport:paced/link:auto:0.4/mode:isolated",
      impl);
  record.workload = "tpsp/gemm_rs";
  record.impl = impl;
  record.shape = {{"model", "llama3-8b"}, {"hidden", 4096}, {"ffn", 14336}, {"tokens", 1024}};
  record.ranks = 2;
  record.dtype = "fp32";
  record.backend = "host";
  record.transport = "paced";
  record.link = "auto:0.4";
  record.mode = "isolated";
  record.environment = {{"hosts", {"node0"}}, {"cpu", "a \"quoted\" CPU"}};
  record.time = "2025-01-31T12:00:00Z";
  return record;
}

}  // namespace

IterationSummary summary_of(const Parts& parts) {
  IterationSummary summary;
  summary.busy = parts.busy;
  summary.model = parts.busy - parts.overhead;
  summary.overhead = parts.overhead;
  summary.gap_head = parts.head;
  summary.gap_interior = parts.interior;
  summary.gap_tail = parts.tail;
  summary.window = parts.busy + summary.gap();
  summary.tail_span = parts.tail;
  summary.compute_wall = parts.busy;
  summary.compute_cpu = parts.busy;
  return summary;
}

IterationSummary interrupted(const Parts& parts) {
  IterationSummary summary = summary_of(parts);
  summary.compute_cpu = summary.compute_wall * 9 / 10;
  return summary;
}

RunSamples isolated(std::vector<RankSummaries> iterations) {
  RunSamples samples;
  for (RankSummaries& iteration : iterations) {
    samples.repetitions.push_back({std::move(iteration)});
  }
  return samples;
}

Record measured_record(const Measured& measured) {
  const RunSamples compute_only = repeated({kComputeOnly, 0, 0, 0, 0});
  const RunSamples comm_only = comm_only_run();
  const RunSamples plain = repeated(kPlain);
  const RunSamples quiet = repeated(measured.quiet);
  const RunSamples run = repeated(measured.run);

  Record record = unfilled(measured.impl);
  record.check = CheckReport{1'048'576, 0, "", 0, 0, true, "exact"};
  CaseSamples samples;
  samples.kind = measured.kind;
  samples.run = measured.kind == RowKind::comm_only      ? &comm_only
                : measured.kind == RowKind::compute_only ? &compute_only
                                                         : &run;
  samples.compute_only = &compute_only;
  samples.comm_only = &comm_only;
  if (measured.kind == RowKind::schedule) {
    samples.quiet = &quiet;
    samples.plain = &plain;
  }
  samples.flops_per_rank = kModelFlops;
  samples.layer = measured.layer;
  samples.peak_flops_per_second = 1e12;
  samples.peak_name = "measured gemm peak";
  samples.moved_bytes = 1024 / 2 * 4096 * 4;
  samples.link_bytes_per_second = 342e6;
  samples.collectives = {{"reduce_scatter", 1024 * 4096 * 4}};
  samples.hosts = {"node0", "node0"};
  add_metrics(record, samples);
  return record;
}

Record unmeasured_record(const std::string& impl, Outcome outcome, const std::string& reason) {
  Record record = unfilled(impl);
  record.outcome = outcome;
  record.reason = reason;
  return record;
}

std::vector<Record> comparison_records() {
  constexpr std::int64_t k = kMicrosecond;
  return {
      measured_record({"compute_only", RowKind::compute_only, {}, {}}),
      measured_record({"comm_only", RowKind::comm_only, {}, {}}),
      measured_record({"plain", RowKind::schedule, {kComputeOnly + 100 * k, 0, 0, 0, 0}, kPlain}),
      measured_record({"sliced:n=4:axis=tokens",
                       RowKind::schedule,
                       {kComputeOnly + 900 * k, 0, 10 * k, 0, 0},
                       {kComputeOnly + 1400 * k, 0, 60 * k, 6200 * k, 0}}),
      measured_record({"commfuse:order=ring:m=2:accumulate=epilogue",
                       RowKind::schedule,
                       {kComputeOnly + 1300 * k, 0, 10 * k, 0, 0},
                       {kComputeOnly + 1700 * k, 0, 240 * k, 0, 0}}),
      measured_record({"commfuse:order=ring:m=1:accumulate=add",
                       RowKind::schedule,
                       {kComputeOnly + 2600 * k, 0, 10 * k, 0, 2100 * k},
                       {kComputeOnly + 2900 * k, 0, 310 * k, 30 * k, 2200 * k}}),
  };
}

std::vector<Record> layer_records() {
  constexpr std::int64_t k = kMicrosecond;
  constexpr double kFlops = kModelFlops;
  const LayerCounts layer{.tokens = 1024,
                          .shares = {{"mfu", kFlops, "needed"},
                                     {"hfu", 1.02 * kFlops, "executed"},
                                     {"mfu_palm", 1.04 * kFlops, "all pairs of attention"},
                                     {"mfu_megatron", kFlops - 4096, "half of all pairs"}},
                          .model = "llama3-8b",
                          .model_layers = 32};
  std::vector<Record> records{
      measured_record({"compute_only", RowKind::compute_only, {}, {}, layer}),
      measured_record({"comm_only", RowKind::comm_only, {}, {}, layer}),
      measured_record(
          {"plain", RowKind::schedule, {kComputeOnly + 100 * k, 0, 0, 0, 0}, kPlain, layer}),
      measured_record({"commfuse:order=ring:m=2:accumulate=epilogue",
                       RowKind::schedule,
                       {kComputeOnly + 1300 * k, 0, 10 * k, 0, 0},
                       {kComputeOnly + 1700 * k, 0, 240 * k, 0, 0},
                       layer})};
  for (Record& record : records) record.workload = "a whole layer";
  return records;
}

std::vector<Record> outcome_records() {
  std::vector<Record> records = comparison_records();
  records.resize(3);
  records[2].check->bound = "float64 within 4 * eps * (k + ranks)";
  records[2].check->bitwise = false;
  records.push_back(unmeasured_record("sliced:n=3:axis=tokens", Outcome::skipped,
                                      "needs rows per rank divisible by n (3), got 512"));
  Record wrong = measured_record({"commfuse:order=ring:m=2:accumulate=epilogue",
                                  RowKind::schedule,
                                  {1, 0, 0, 0, 0},
                                  {1, 0, 0, 0, 0}});
  wrong.outcome = Outcome::wrong;
  wrong.reason = "the result is wrong";
  wrong.check =
      CheckReport{1'048'576, 17, "rank 1 result[3, 17]: got 4, want 5", 1, 0.2, false, "exact"};
  records.push_back(wrong);
  records.push_back(unmeasured_record("commfuse:order=direct:m=1:accumulate=once", Outcome::failed,
                                      "rank 1: injected failure\nsecond line"));
  return records;
}

std::vector<Record> sweep_records() {
  std::vector<Record> records;
  for (const int tokens : {1024, 2048}) {
    for (const Record& record : comparison_records()) {
      if (record.impl != "plain" && record.impl != "commfuse:order=ring:m=2:accumulate=epilogue") {
        continue;
      }
      records.push_back(record);
      records.back().shape["tokens"] = tokens;
      records.back().id += fmt::format("/tokens:{}", tokens);
    }
  }
  return records;
}

}  // namespace commfuse::test
