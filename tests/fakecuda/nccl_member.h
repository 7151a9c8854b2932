// SPDX-License-Identifier: Apache-2.0
// For tests of the fake NCCL: what each rank has, and a run of all of them with many seeds.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/number_format.h"

namespace commfuse::fake {

/// A rank with a communicator of all ranks, a stream and memory.
struct Member {
  std::int32_t rank;
  std::int32_t ranks;
  ncclComm_t comm;
  StreamId stream;
  Machine& machine;

  [[nodiscard]] cudaStream_t handle() const { return handle_of(stream); }

  /// A buffer with values; of poison where there are none.
  [[nodiscard]] std::byte* buffer(const std::vector<float>& values, std::size_t elements = 0,
                                  NumberFormat format = NumberFormat::f32) const {
    const std::size_t bytes = std::max(values.size(), elements) * bytes_of(format);
    std::byte* data = machine.allocate(bytes, "buffer");
    if (values.empty()) return data;
    machine.host_work({"fill", {}, {{data, values.size() * bytes_of(format)}}, 0, [&] {
                         for (std::size_t i = 0; i < values.size(); ++i) {
                           store(format, data, i, values[i]);
                         }
                       }});
    return data;
  }

  /// The values once the stream has come so far.
  [[nodiscard]] std::vector<float> read(const std::byte* data, std::size_t elements,
                                        NumberFormat format = NumberFormat::f32) const {
    machine.synchronise(stream);
    std::vector<float> values;
    machine.host_work({"read", {{data, elements * bytes_of(format)}}, {}, 0, [&] {
                         for (std::size_t i = 0; i < elements; ++i) {
                           values.push_back(load(format, data, i));
                         }
                       }});
    return values;
  }
};

/// Every seed ends the same way; `part` is in the message.
inline void expect_run(std::int32_t ranks, Verdict::Kind kind,
                       const std::function<void(const Member&)>& body, const std::string& part = "",
                       std::uint64_t seeds = 20) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Machine machine({seed});
    ncclUniqueId id{};
    std::int32_t members = 0;
    const Verdict verdict = machine.run(ranks, [&](std::int32_t rank) {
      if (rank == 0) ncclGetUniqueId(&id);
      machine.barrier();
      ncclComm_t comm = nullptr;
      if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return;  // the run has ended
      ++members;
      body({rank, ranks, comm, machine.create_stream("stream"), machine});
    });
    EXPECT_EQ(verdict.kind, kind) << verdict.message;
    EXPECT_THAT(verdict.message, testing::HasSubstr(part));
    EXPECT_TRUE(!verdict.ok() || members == ranks);
  }
}

}  // namespace commfuse::fake
