// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/cuda_backend.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "harness/cuda/ce_transport.h"
#include "harness/cuda/cuda_executor.h"
#include "harness/cuda/device_peak.h"
#include "harness/cuda/driver_functions.h"
#include "harness/cuda/nccl_smoke.h"
#include "harness/cuda/nccl_transport.h"
#include "harness/world/say.h"
#include "suite/workload.h"

namespace commfuse {
namespace {

using State = SelfTestPart::State;

GemmSettings gemm_settings(const BackendSettings& settings) {
  return {settings.spared_sms, settings.deterministic, settings.tf32};
}

/// The tracer of this process, or null after one line that says why there is none.
std::unique_ptr<CuptiTracer> start_tracer() {
  std::string reason;
  try {
    if (auto tracer = CuptiTracer::start(CuptiLibrary::open(), reason)) return tracer;
  } catch (const std::runtime_error& error) {
    reason = fmt::format("no timeline by CUPTI: {}", error.what());
  }
  say(reason);
  return nullptr;
}

/// Ranks that are threads share it. Never destroyed: it lives until the process ends.
CuptiTracer* tracer_of_process() {
  static CuptiTracer* const tracer = start_tracer().release();
  return tracer;
}

/// For nothing where there is no device: then that is all there is to say.
CuptiTracer* tracer_if_wanted(World& world, const BackendSettings& settings) {
  require_devices(world);
  return settings.profile ? tracer_of_process() : nullptr;
}

/// What became of a part whose action returns its finding; empty if there is nothing to find.
template <class Action>
SelfTestPart try_part(const char* name, const std::string& if_right, Action action) {
  try {
    const std::string wrong = action();
    return {name, wrong.empty() ? if_right : wrong, wrong.empty() ? State::ok : State::failed};
  } catch (const Unsupported& error) {
    return {name, error.what(), State::missing};
  } catch (const std::runtime_error& error) {
    return {name, error.what(), State::failed};
  }
}

}  // namespace

// CUPTI must be there before the first context.
CudaBackend::CudaBackend(World& world, const BackendSettings& settings, MachineSources sources,
                         const RateLimits& limits)
    : world_(world),
      sources_(std::move(sources)),
      settings_(settings),
      limits_(limits),
      tracer_(tracer_if_wanted(world, settings)),
      device_(select_device(world)),
      state_(sources_.state_of(device_.pci)) {}

std::unique_ptr<CudaTransport> CudaBackend::transport(World& group, std::string_view name,
                                                      std::int32_t executors) const {
  if (name == "ce")
    return std::make_unique<CeTransport>(group, device_, reach_of(group), executors);
  if (name == "nccl") {
    return std::make_unique<NcclTransport>(group, device_, NcclSettings{settings_.ctas_per_peer});
  }
  throw std::invalid_argument(fmt::format("no transport '{}' on cuda", name));
}

std::unique_ptr<Executor> CudaBackend::executor(World& group, const Workload& workload,
                                                std::string_view name) {
  return std::move(executors(group, workload, name, 1).front());
}

std::vector<std::unique_ptr<Executor>> CudaBackend::executors(World& group,
                                                              const Workload& workload,
                                                              std::string_view name,
                                                              std::int32_t count) {
  const bool one_process = reach_of(group) == Reach::pointers;
  // Of several groups in a process each would take the others' records.
  const bool traced = !one_process || group.ranks() == world_.ranks();
  const std::shared_ptr<CudaTransport> shared = transport(group, name, count);
  std::vector<std::unique_ptr<Executor>> all;
  for (std::int32_t i = 0; i < count; ++i) {
    all.push_back(std::make_unique<CudaExecutor>(
        group, device_, gemm_settings(settings_), workload.tensors, workload.weights, shared,
        CudaExecutor::Tracing{traced ? tracer_ : nullptr, one_process},
        settings_.graph ? Issue::graph : Issue::calls));
  }
  return all;
}

std::int64_t CudaBackend::cache_bytes() const {
  int bytes = 0;
  CFB_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device_.index));
  return bytes;
}

std::int64_t CudaBackend::available_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  CFB_CUDA(cudaMemGetInfo(&free, &total));
  // The caller counts the ranks of a node; a device carries some of them.
  return static_cast<std::int64_t>(free) / device_.ranks_here * device_.ranks_on_node;
}

std::map<std::string, std::string> CudaBackend::libraries() const {
  return {{"device", device_.name},
          {"driver", device_.driver},
          {"cuda", device_.runtime},
          {"cublaslt", std::to_string(cublasLtGetVersion())},
          {"nccl", NcclCommunicators::version()},
          {"connections", std::to_string(device_.connections)},
          {"ranks_per_device", std::to_string(device_.ranks_here)},
          {"sms", std::to_string(device_.sms)},
          {"copy_engines", std::to_string(device_.copy_engines)}};
}

std::optional<DeviceReading> CudaBackend::read_device() {
  return state_ ? std::optional(state_->read()) : std::nullopt;
}

std::vector<Finding> CudaBackend::look_at_machine() {
  RankFacts own = facts_of_rank(world_, device_, sources_);
  own.nccl = NcclCommunicators::version();
  own.profiled = settings_.profile;
  own.traces = tracer_ != nullptr;
  const std::vector<RankFacts> all = gather_facts(world_, own);
  return all.empty() ? std::vector<Finding>{} : machine_findings(all);
}

std::vector<std::string> CudaBackend::doubts() { return lines_against_times(look_at_machine()); }

std::vector<SelfTestPart> CudaBackend::self_test() {
  std::vector<SelfTestPart> parts = parts_of_rank_0();
  for (SelfTestPart& part : measure_rates(world_, device_, gemm_settings(settings_),
                                          NcclSettings{settings_.ctas_per_peer}, limits_)) {
    parts.push_back(std::move(part));
  }
  const std::vector<Finding> findings = look_at_machine();
  if (world_.rank() != 0) return {};
  for (const Finding& finding : findings) parts.push_back(finding.part);
  parts.push_back(trust_part(findings));
  return parts;
}

std::vector<SelfTestPart> CudaBackend::parts_of_rank_0() {
  const std::unique_ptr<World> alone = world_.split(world_.rank());
  if (world_.rank() != 0) return {};
  const std::string flush = device_.flushes_remote_writes ? "" : "not ";
  const NcclSettings nccl{settings_.ctas_per_peer};
  std::vector<SelfTestPart> parts{
      try_part("stream operations on values",
               fmt::format("found in the driver; remote writes can {}be flushed", flush),
               [] {
                 find_stream_value_functions();
                 return std::string();
               }),
      try_part("nccl",
               fmt::format("{}, exchanges of one rank with itself arrived on {} lanes",
                           NcclCommunicators::version(), kLanes),
               [&] { return exchange_with_itself(*alone, nccl); })};
  for (const CollectiveVia via : kCollectiveVia) {
    if (via == CollectiveVia::standard) continue;
    parts.push_back(try_part(fmt::format("nccl collective={}", name_of(via)).c_str(),
                             "communicator and memory were taken, by one rank alone",
                             [&] { return gather_registered(*alone, nccl, via); }));
  }
  return parts;
}

double CudaBackend::measured_peak() { return measure_cuda_gemm_peak(gemm_settings(settings_)); }

}  // namespace commfuse
