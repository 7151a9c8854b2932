// SPDX-License-Identifier: Apache-2.0
// What moves data between the ranks of the CUDA executor. As on the host, a Transport belongs to
// one rank and opens a Channel for every prepared plan; but everything is enqueued, and nothing
// here waits on the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/cuda/cuda_plan.h"
#include "harness/cuda/device_storage.h"
#include "harness/cuda/issue.h"
#include "harness/cuda/peer_memory.h"

namespace commfuse {

/// Iterations of a prepared plan are numbered from 1 on, over all of its runs.
using Epoch = std::uint64_t;

/// The iteration that is being enqueued. `first` of its run: nothing of the iteration before is
/// still under way anywhere.
struct Turn {
  Epoch epoch = 1;
  bool first = true;
};

/// Kernels and copies of one message or collective; of a whole exchange where it completes as one,
/// then under its first message.
struct ChannelWork {
  EventId event = 0;
  std::int32_t activities = 1;
  /// At least so many: a library's own copies, which may run side by side.
  bool or_more = false;
};

/// The communication of one prepared plan on one rank. Ops are enqueued in plan order, the compute
/// ops between them too: that order is what keeps streams which share a hardware queue from waiting
/// for each other in a circle.
class CudaChannel {
 public:
  explicit CudaChannel(const CudaPlan& plan) : plan_(plan) {}
  virtual ~CudaChannel() = default;
  CudaChannel(const CudaChannel&) = delete;
  CudaChannel& operator=(const CudaChannel&) = delete;

  /// An exchange, or a collective. Those of the compute lane go to `compute`, which has waited for
  /// what they depend on.
  virtual void enqueue(OpId op, Turn turn, cudaStream_t compute) = 0;
  /// Makes `stream` wait for a message, or a collective off the compute lane, of an epoch.
  virtual void wait_for_transfer(cudaStream_t stream, EventId event, Epoch epoch) = 0;
  /// What traced activities each event must have left on this rank, and where: all streams that the
  /// channel enqueues to, `compute` not among them.
  [[nodiscard]] virtual std::vector<ChannelWork> work() const = 0;
  [[nodiscard]] virtual std::vector<cudaStream_t> streams() const = 0;
  /// The end of an iteration that will be replayed, on a stream that comes after all of it: leaves
  /// things as the iteration found them.
  virtual void prepare_for_replay(cudaStream_t /*stream*/) {}
  /// Lines about what an iteration that hangs still waits for, as far as this rank can tell; while
  /// streams of the device wait. In bounded time unless the driver itself hangs.
  [[nodiscard]] virtual std::string pending(Epoch epoch) = 0;
  /// Throws LibraryError where a library noticed an error since the last call.
  virtual void check() {}

  /// Makes `stream` wait for all that the event depends on.
  void wait_for_dependencies(cudaStream_t stream, EventId event, Turn turn);
  /// Makes `stream` wait for every message and every collective off the compute lane.
  void wait_for_all(cudaStream_t stream, Epoch epoch);

 protected:
  [[nodiscard]] const Program& program() const { return plan_.program; }
  [[nodiscard]] const OpMarks& marks() const { return plan_.marks; }

 private:
  void wait_for(cudaStream_t stream, EventId event, Epoch epoch);

  const CudaPlan& plan_;
};

class CudaTransport {
 public:
  virtual ~CudaTransport() = default;
  /// How peers must be able to reach this rank's tensors.
  [[nodiscard]] virtual Reach reach() const = 0;
  /// Throws Unsupported for what this transport cannot carry, as far as the plan tells, on every
  /// rank alike and before anything is allocated.
  virtual void require_support(const Plan& plan) const { require_default_collectives(plan); }
  /// Collective over the group. `program` and `compute_events` outlive the channel; storages[r]
  /// holds the tensors of rank r, of this rank alone where reach() is none. Throws Unsupported for
  /// what this transport cannot carry.
  /// All iterations of the plan are issued in one way.
  virtual std::unique_ptr<CudaChannel> open(const CudaPlan& plan,
                                            std::span<const DeviceStorage> storages,
                                            Issue issue) = 0;
  /// What records say about it: versions, settings, streams.
  [[nodiscard]] virtual std::map<std::string, std::string> facts() const = 0;
};

}  // namespace commfuse
