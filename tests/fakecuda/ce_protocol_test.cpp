// SPDX-License-Identifier: Apache-2.0
// One block per iteration between two ranks, by the counters of ce, in replays: which protocols are
// right, and what each wrong one runs into.
#include "harness/cuda/ce_protocol.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/iteration_graph.h"
#include "tests/fakecuda/fake_runtime.h"
#include "tests/fakecuda/fake_world.h"

namespace commfuse::fake {
namespace {

constexpr std::size_t kBlockBytes = 256;
constexpr std::size_t kCredit = 512;
constexpr std::size_t kArrival = 1024;
constexpr std::size_t kSlabBytes = 2048;

/// When the receiver, whose block has a consumer in a stream of its own, puts the arrival back.
enum class PutBack { at_the_end, before_the_credit, never };

struct Variant {
  Issue protocol = Issue::graph;
  PutBack put_back = PutBack::at_the_end;
};

/// Streams and memory of one rank; ranks share a device and its addresses.
class Rank {
 public:
  Rank(World& world, std::array<std::byte*, 2>& slabs, const Variant& variant)
      : variant_(variant),
        counters_(find_stream_value_functions(), false),
        protocol_(counters_, variant.protocol),
        sends_(world.rank() == 0),
        slabs_(slabs) {
    slabs_[static_cast<std::size_t>(world.rank())] = slab_.data();
    CFB_CUDA(cudaMemsetAsync(slab_.data(), 0, kSlabBytes, origin_));
    CFB_CUDA(cudaStreamSynchronize(origin_));
    world.barrier();
  }

  void replay(World& world, int times) {
    const std::array<cudaStream_t, 2> others{first_, second_};
    IterationGraph graph(
        origin_, others, [&] { sends_ ? send() : receive(); }, [&] { finish(); });
    for (int i = 0; i < times; ++i) {
      world.barrier();
      graph.launch(origin_);
      CFB_CUDA(cudaEventSynchronize(graph.finished()));
    }
    world.barrier();
  }

 private:
  void send() {
    protocol_.take(first_, slabs_[0] + kCredit, 1);
    CFB_CUDA(cudaMemcpyAsync(slabs_[1], slabs_[0], kBlockBytes, cudaMemcpyDeviceToDevice, first_));
    protocol_.tell(first_, slabs_[1] + kArrival, 1);
  }
  void receive() {
    if (variant_.put_back == PutBack::before_the_credit) {
      protocol_.put_back(first_, slabs_[1] + kArrival);
    }
    protocol_.tell(first_, slabs_[0] + kCredit, 1);
    protocol_.wait(second_, slabs_[1] + kArrival, 1);
    CFB_CUDA(cudaMemcpyAsync(slabs_[1] + kBlockBytes, slabs_[1], kBlockBytes,
                             cudaMemcpyDeviceToDevice, second_));
  }
  void finish() {
    if (!sends_ && variant_.put_back == PutBack::at_the_end) {
      protocol_.put_back(origin_, slabs_[1] + kArrival);
    }
  }

  Variant variant_;
  CounterOps counters_;
  CounterProtocol protocol_;
  bool sends_;
  std::array<std::byte*, 2>& slabs_;
  DeviceMemory slab_{kSlabBytes};
  commfuse::Stream origin_{0};
  commfuse::Stream first_{0};
  commfuse::Stream second_{0};
};

void expect(const Variant& variant, int replays, Verdict::Kind kind) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Machine machine({seed});
    FakeDevices devices;
    devices.one_process = true;
    const FakeRuntime runtime(devices);
    std::array<std::byte*, 2> slabs{};
    const Verdict verdict = run_fake_ranks(machine, 2, [&](World& world) {
      CFB_CUDA(cudaSetDevice(0));
      Rank rank(world, slabs, variant);
      rank.replay(world, replays);
    });
    EXPECT_EQ(verdict.kind, kind) << "seed " << seed << ": " << verdict.message;
  }
}

TEST(CeProtocol, ConstantsAreRightInEveryReplay) {
  expect({Issue::graph, PutBack::at_the_end}, 5, Verdict::Kind::ok);
}

TEST(CeProtocol, EpochsAreRightInTheFirstReplayOnly) {
  expect({Issue::calls, PutBack::at_the_end}, 1, Verdict::Kind::ok);
  expect({Issue::calls, PutBack::at_the_end}, 2, Verdict::Kind::race);
}

TEST(CeProtocol, AnArrivalThatIsNotPutBackIsTakenForTheNext) {
  expect({Issue::graph, PutBack::never}, 1, Verdict::Kind::ok);
  expect({Issue::graph, PutBack::never}, 2, Verdict::Kind::race);
}

// The consumer's stream may look before the credit's stream has come to it.
TEST(CeProtocol, AnArrivalPutBackBesideItsConsumersIsTakenForTheNext) {
  expect({Issue::graph, PutBack::before_the_credit}, 2, Verdict::Kind::race);
}

}  // namespace
}  // namespace commfuse::fake
