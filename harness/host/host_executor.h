// SPDX-License-Identifier: Apache-2.0
// The executor of the host: BLAS on the rank's own thread, communication by a Transport.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "harness/executor.h"
#include "harness/host/kernels.h"
#include "harness/host/tensor_memory.h"
#include "harness/host/transport.h"
#include "harness/world/world.h"

namespace commfuse {

/// Walks the compute lane of a plan on the calling thread: waits for what an op depends on, runs
/// it, stamps it. Everything else is the transport's. The workload's tensors are allocated once,
/// scratch when a plan is prepared; run() allocates nothing once timelines have their capacity.
/// Weights and the tensors of transports that do not share memory are private.
///
/// In steady mode the timelines of a run adjoin: iteration i's window is from the end of i-1 to the
/// end of the last op of i. Spans keep their true times, so one that began while i-1 was still
/// ending reaches over the window's start.
class HostExecutor final : public Executor {
 public:
  /// Collective over `group`, whose ranks are those of the plans and which outlives this.
  HostExecutor(World& group, std::span<const Tensor> tensors, std::span<const TensorId> weights,
               std::unique_ptr<Transport> transport);
  ~HostExecutor() override;

  PlanHandle prepare(const Plan& plan) override;
  PlanHandle prepare_quiet(const Plan& plan, PlanHandle origin) override;
  void write(PlanHandle plan, const View& view, std::span<const float> packed) override;
  void read(PlanHandle plan, const View& view, std::span<float> packed) override;
  void poison(PlanHandle plan) override;
  void weights_written() override;
  void set_link(const LinkSpeed& link) override { transport_->set_link(link); }
  WireReport take_wire_report() override { return transport_->take_report(); }
  void report_to(Watchdog& watchdog) override { watchdog_ = &watchdog; }
  void run(PlanHandle plan, Mode mode, std::span<Timeline> timelines) override;

 private:
  struct Prepared;

  void require_layout(const Plan& plan) const;
  /// Collective: peers find each other's scratch at their own offsets.
  void require_equal_scratch(const Plan& plan) const;
  [[nodiscard]] std::vector<Storage> storages_of(const Plan& plan,
                                                 const TensorMemory& scratch) const;
  void prepare_compute(Prepared& prepared);
  /// The compute lane comes to its first op at turn_ns; returns when it was through with its last.
  std::int64_t run_iteration(Prepared& prepared, Epoch epoch, const Run& run, std::int64_t turn_ns);
  [[nodiscard]] std::int64_t wait_for_dependencies(Prepared& prepared, EventId event, Epoch epoch,
                                                   bool first);

  World& group_;
  std::unique_ptr<Transport> transport_;
  Watchdog* watchdog_ = nullptr;
  std::vector<Tensor> tensors_;
  std::vector<TensorId> weights_;
  std::vector<bool> is_weight_;
  TensorMemory memory_;
  HostKernels kernels_;
  std::vector<std::unique_ptr<Prepared>> prepared_;
};

}  // namespace commfuse
