// SPDX-License-Identifier: Apache-2.0
// What count_overhead.py counts the instructions of: a row-parallel linear layer in the ring
// schedule, once by the host executor from a plan, once by hand with the same gemms and messages.
// Run with two different numbers of rounds, so that the difference is the steady part alone.
//
//   overhead_program plan|hand ROUNDS     prints "ops N": operations of the plan in one round, over
//   all ranks overhead_program gemm M N K           one gemm of that size, and nothing else
#include <cblas.h>
#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "harness/host/host_backend.h"
#include "harness/world/doorbell.h"
#include "harness/world/thread_world.h"
#include "impls/implementation.h"
#include "suite/workload.h"

namespace commfuse {
namespace {

constexpr std::int32_t kRanks = 4;
constexpr std::int32_t kParts = 2;               // per peer slice
constexpr std::int32_t kIterationsPerRound = 8;  // back to back, after one barrier
constexpr std::string_view kSchedule = "commfuse:order=ring:m=2:accumulate=epilogue";

// The sizes do not matter to what is counted, only to how long BLAS takes under callgrind.
Workload small_layer() {
  Shape shape = parse_shape("hidden=32,ffn=128,heads=4,kv_heads=4");
  shape.tokens = 64;
  return find_workloads("tpsp/gemm_rs").front()->build(shape, kRanks);
}

std::size_t run_plan(std::int64_t rounds) {
  const Workload workload = small_layer();
  const Implementation implementation = make_implementation(kSchedule, workload);
  std::atomic<std::size_t> ops{0};
  run_thread_ranks(kRanks, [&](World& world) {
    HostBackend backend({});
    const std::unique_ptr<Executor> executor = backend.executor(world, workload, "paced");
    executor->set_link({});  // unlimited: nothing is waited for but the peers
    const Plan plan = build_plan(implementation, workload, world.rank());
    ops += plan.ops.size();
    const PlanHandle handle = executor->prepare(plan);
    executor->weights_written();
    std::vector<Timeline> timelines(kIterationsPerRound);
    executor->run(handle, Mode::steady, timelines);  // gives the timelines their memory
    for (std::int64_t round = 0; round < rounds; ++round) {
      executor->run(handle, Mode::steady, timelines);
    }
  });
  return ops * kIterationsPerRound;
}

/// One message's place at its receiver. Counts iterations, from 1.
struct Slot {
  std::vector<float> block;
  std::atomic<std::int64_t> arrived{0};
  std::atomic<std::int64_t> consumed{0};
  Doorbell bell;

  void wait(const std::atomic<std::int64_t>& count, std::int64_t wanted) {
    bell.wait_until([&] { return count.load(std::memory_order_acquire) >= wanted; }, kNeverNs);
  }
  void announce(std::atomic<std::int64_t>& count, std::int64_t iteration) {
    count.store(iteration, std::memory_order_release);
    bell.ring();
  }
};

/// The layer as somebody would write it who needs no plans: one rank's buffers and loop.
class HandWritten {
 public:
  HandWritten(const Workload& workload, std::int32_t rank)
      : rank_(rank),
        rows_(workload.shape.tokens / kRanks / kParts),
        cols_(workload.shape.hidden),
        depth_(workload.shape.ffn / kRanks),
        slots_((kRanks - 1) * kParts),
        activations_(std::size_t(workload.shape.tokens) * depth_),
        weights_(std::size_t(cols_) * depth_),
        partial_(std::size_t(workload.shape.tokens) * cols_) {
    for (Slot& slot : slots_) slot.block.resize(block_elements());
  }

  void run_iteration(HandWritten& next, std::int64_t iteration) {
    for (std::int32_t step = 0; step < kRanks; ++step) {
      const std::int32_t slice = (rank_ + 2 * kRanks - 1 - step) % kRanks;
      for (std::int32_t part = 0; part < kParts; ++part) {
        const std::size_t block = std::size_t(slice) * kParts + part;
        float* d = partial_.data() + block * block_elements();
        if (step > 0) take(slots_[std::size_t(step - 1) * kParts + part], iteration, d);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows_, cols_, depth_, 1,
                    activations_.data() + block * rows_ * depth_, depth_, weights_.data(), depth_,
                    step > 0 ? 1 : 0, d, cols_);
        if (step + 1 < kRanks) give(next.slots_[std::size_t(step) * kParts + part], iteration, d);
      }
    }
  }

 private:
  [[nodiscard]] std::size_t block_elements() const { return std::size_t(rows_) * cols_; }

  void take(Slot& slot, std::int64_t iteration, float* d) {
    slot.wait(slot.arrived, iteration);
    std::memcpy(d, slot.block.data(), block_elements() * sizeof(float));
    slot.announce(slot.consumed, iteration);
  }
  void give(Slot& slot, std::int64_t iteration, const float* d) {
    slot.wait(slot.consumed, iteration - 1);
    std::memcpy(slot.block.data(), d, block_elements() * sizeof(float));
    slot.announce(slot.arrived, iteration);
  }

  std::int32_t rank_, rows_, cols_, depth_;
  std::vector<Slot> slots_;
  std::vector<float> activations_, weights_, partial_;
};

std::size_t run_by_hand(std::int64_t rounds) {
  const Workload workload = small_layer();
  const Implementation implementation = make_implementation(kSchedule, workload);
  std::vector<std::unique_ptr<HandWritten>> layers;
  std::size_t ops = 0;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    layers.push_back(std::make_unique<HandWritten>(workload, rank));
    ops += build_plan(implementation, workload, rank).ops.size();
  }
  openblas_set_num_threads(1);
  run_thread_ranks(kRanks, [&](World& world) {
    HandWritten& layer = *layers[std::size_t(world.rank())];
    HandWritten& next = *layers[std::size_t((world.rank() + 1) % kRanks)];
    for (std::int64_t iteration = 1; iteration <= (rounds + 1) * kIterationsPerRound; ++iteration) {
      layer.run_iteration(next, iteration);
    }
  });
  return ops * kIterationsPerRound;
}

void run_gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  openblas_set_num_threads(1);
  const std::vector<float> a(std::size_t(m) * k), b(std::size_t(n) * k);
  std::vector<float> d(std::size_t(m) * n);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(m), int(n), int(k), 1, a.data(), int(k),
              b.data(), int(k), 0, d.data(), int(n));
}

std::int64_t parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1) {
    throw std::invalid_argument(fmt::format("'{}' is not a number from 1 on", text));
  }
  return value;
}

void run(const std::vector<std::string_view>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "plan") {
    fmt::print("ops {}\n", run_plan(parse_number(arguments[1])));
  } else if (arguments.size() == 2 && arguments[0] == "hand") {
    fmt::print("ops {}\n", run_by_hand(parse_number(arguments[1])));
  } else if (arguments.size() == 4 && arguments[0] == "gemm") {
    run_gemm(parse_number(arguments[1]), parse_number(arguments[2]), parse_number(arguments[3]));
  } else {
    throw std::invalid_argument("usage: overhead_program plan|hand ROUNDS, or gemm M N K");
  }
}

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) {
  try {
    commfuse::run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "overhead_program: {}\n", error.what());
    return 1;
  }
}
