// SPDX-License-Identifier: Apache-2.0
// What the runner needs of a backend beside executors. One object per rank and launch.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device_reading.h"
#include "harness/executor.h"
#include "harness/world/world.h"
#include "impls/message_completion.h"

namespace commfuse {

/// What came of a part of a backend that no case covers.
struct SelfTestPart {
  /// warning: it works, and something about it should be mended.
  enum class State : std::uint8_t { ok, missing, failed, warning };
  std::string name;  // "nccl"
  std::string text;  // one line: what was seen, what is missing, or what failed and how
  State state = State::ok;
};

/// The device of a rank, as its datasheet names it.
struct RankDevice {
  std::string name;        // empty: a CPU
  std::int32_t ranks = 1;  // of this launch that share it
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// As --backend and records name it.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Collective over the group. `transport` is one that this backend has. Throws Unsupported.
  virtual std::unique_ptr<Executor> executor(World& group, const Workload& workload,
                                             std::string_view transport) = 0;
  /// As many executors of one case, each with storage of its own, of which one runs at a time.
  virtual std::vector<std::unique_ptr<Executor>> executors(World& group, const Workload& workload,
                                                           std::string_view transport,
                                                           std::int32_t count) {
    std::vector<std::unique_ptr<Executor>> all;
    while (std::ssize(all) < count) all.push_back(executor(group, workload, transport));
    return all;
  }
  /// Of the largest cache that this rank's reads go through, in bytes.
  [[nodiscard]] virtual std::int64_t cache_bytes() const = 0;
  /// What all ranks of this node together may use for tensors, in bytes; 0 if it is not known.
  [[nodiscard]] virtual std::int64_t available_bytes() const = 0;
  /// How messages of an exchange complete on a transport that this backend has.
  [[nodiscard]] virtual MessageCompletion completion(std::string_view /*transport*/) const {
    return MessageCompletion::each_message;
  }
  /// For --replay.
  [[nodiscard]] virtual OpTiming op_timing() const { return OpTiming::in_turn; }
  /// Names and versions of the libraries that do the work.
  [[nodiscard]] virtual std::map<std::string, std::string> libraries() const = 0;
  /// Best gemm rate of one rank, measured while all ranks measure; FLOP/s.
  virtual double measured_peak() = 0;
  /// What that is called wherever a share of it is shown.
  [[nodiscard]] virtual std::string_view peak_name() const { return "measured gemm peak"; }
  [[nodiscard]] virtual RankDevice rank_device() const { return {}; }
  /// Of this rank's device, now; nothing where there is none. Any time but inside a timed window.
  virtual std::optional<DeviceReading> read_device() { return {}; }
  /// Collective over the world; on rank 0 what makes times of this machine doubtful, each in a line
  /// with its remedy.
  virtual std::vector<std::string> doubts() { return {}; }
  /// Collective over the world; the parts on rank 0.
  virtual std::vector<SelfTestPart> self_test() { return {}; }
};

}  // namespace commfuse
