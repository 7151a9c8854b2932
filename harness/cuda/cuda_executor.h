// SPDX-License-Identifier: Apache-2.0
// The executor of a GPU: the compute lane is a stream, dependencies are events, communication is a
// CudaTransport. It invents no order: ops are enqueued as the plan has them.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "harness/cuda/cuda_kernels.h"
#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/cuda_transport.h"
#include "harness/cuda/cupti_tracer.h"
#include "harness/cuda/device.h"
#include "harness/cuda/issue.h"
#include "harness/cuda/peer_memory.h"
#include "harness/executor.h"
#include "harness/world/world.h"

namespace commfuse {

/// Enqueues whole iterations and polls until they are done. The workload's tensors are allocated
/// once, scratch when a plan is prepared; run() allocates nothing on the device.
///
/// Times are those of the device, laid on this rank's monotonic clock at the start of a run. Spans
/// of messages have no time (their streams are not stamped); collectives of the compute lane have.
/// Windows in steady mode are as on the host.
///
/// With Issue::graph every plan is captured when it is prepared, and run() replays it. A graph has
/// one set of timing events, and iterations within it could not wait for the one before: only
/// isolated iterations are replayed, and run() in steady mode throws Unsupported. Nor are replays
/// traced: their work carries no ids of ops.
class CudaExecutor final : public Executor {
 public:
  /// How iterations can be traced; no tracer, no traces.
  struct Tracing {
    CuptiTracer* tracer = nullptr;  // outlives the executor
    bool one_process = false;       // all ranks of the process, and no others, are the group
  };

  /// Executors of a rank may share a transport if one of them runs at a time.
  /// Collective over `group`, whose ranks are those of the plans and which outlives this. The
  /// calling thread's current device is the rank's.
  CudaExecutor(World& group, const Device& device, const GemmSettings& settings,
               std::span<const Tensor> tensors, std::span<const TensorId> weights,
               std::shared_ptr<CudaTransport> transport, const Tracing& tracing,
               Issue issue = Issue::calls);
  ~CudaExecutor() override;

  PlanHandle prepare(const Plan& plan) override;
  PlanHandle prepare_quiet(const Plan& plan, PlanHandle origin) override;
  void write(PlanHandle plan, const View& view, std::span<const float> packed) override;
  void read(PlanHandle plan, const View& view, std::span<float> packed) override;
  void poison(PlanHandle plan) override;
  void weights_written() override {}  // used as they are
  void set_link(const LinkSpeed& /*link*/) override {}
  void report_to(Watchdog& watchdog) override { watchdog_ = &watchdog; }
  void run(PlanHandle plan, Mode mode, std::span<Timeline> timelines) override;
  std::vector<TracedIteration> trace(PlanHandle plan, std::int32_t iterations) override;
  [[nodiscard]] std::map<std::string, std::string> facts() const override;
  [[nodiscard]] std::map<std::string, std::string> plan_facts(PlanHandle plan) const override;
  [[nodiscard]] std::int64_t issue_ns_of_last_run() const override { return issue_ns_; }

 private:
  struct Prepared;

  void fill(Prepared& prepared);
  void prepare_compute(const Prepared& prepared);
  void capture(Prepared& prepared);
  PlanHandle keep(std::unique_ptr<Prepared> prepared);
  void issue(Prepared& prepared, std::size_t iterations);
  void enqueue_iteration(Prepared& prepared, Turn turn, std::size_t iteration);
  void enqueue_op(Prepared& prepared, OpId op, Turn turn);
  void wait_until_done(Prepared& prepared, std::size_t iteration, Epoch epoch);
  void poll(Prepared& prepared, cudaEvent_t event, Epoch epoch);

  World& group_;
  std::vector<Tensor> tensors_;
  std::vector<bool> is_weight_;
  Tracing tracing_;
  Issue issue_;
  std::int64_t issue_ns_ = 0;  // per iteration
  Watchdog* watchdog_ = nullptr;
  Stream compute_;
  Stream end_;  // where iterations end: it waits for all lanes, and no lane for it
  CudaEvent origin_{EventUse::timing};
  std::shared_ptr<CudaTransport> transport_;
  CudaKernels kernels_;
  PeerMemory memory_;
  std::vector<std::unique_ptr<Prepared>> prepared_;
};

}  // namespace commfuse
