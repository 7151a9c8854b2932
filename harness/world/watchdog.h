// SPDX-License-Identifier: Apache-2.0
// Watchdog: a run that hangs ends by itself and says where. One per rank, from before MPI_Init to
// after MPI_Finalize, since both can hang. A thread looks several times per timeout whether the
// rank finished an operation or changed its phase; if not for `timeout`, it prints one block:
//
//   commfuse-bench: timeout: rank 3 on node07 made no progress for 300 s
//     phase: measure > warm-up > iteration
//     last finished: op 17, gemm layer0.up slice 2
//     records so far are in results.jsonl; go on with --resume
//
// waits a moment so that this rank can say what it waits for and the ranks that hang with it where
// they are, and ends all ranks with exit code 4. The abort may hang itself: it is given up after a
// bounded time for _exit.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "harness/world/doorbell.h"
#include "harness/world/interrupts.h"

namespace commfuse {

inline constexpr int kExitTimeout = 4;
inline constexpr int kExitInterrupted = 11;

class Watchdog {
 public:
  /// What a value given to progress() means, in words. Called on the watchdog's thread.
  using Describe = std::function<std::string(std::uint64_t what)>;

  /// How long the last steps may take before the next one is tried.
  struct Limits {
    std::chrono::milliseconds others{500};  // for the other ranks' blocks
    std::chrono::milliseconds abort{5000};
  };

  /// `abort(exit_code)` ends all ranks; it may be called from another thread at any time. A timeout
  /// of zero watches nothing: interrupted() and phases still work.
  Watchdog(std::int32_t rank, std::string host, std::chrono::nanoseconds timeout,
           std::function<void(int)> abort);
  Watchdog(std::int32_t rank, std::string host, std::chrono::nanoseconds timeout,
           std::function<void(int)> abort, Limits limits);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// A phase lasts as long as this object. Phases nest and end in reverse order; begun and ended by
  /// one thread.
  class Phase {
   public:
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;
    ~Phase() { watchdog_->leave(); }

   private:
    friend class Watchdog;
    explicit Phase(Watchdog& watchdog) : watchdog_(&watchdog) {}
    Watchdog* watchdog_;
  };

  /// Begins a phase. `describe` explains what progress() reports in it; whatever it refers to must
  /// live as long as the phase.
  [[nodiscard]] Phase guard(std::string_view name, Describe describe = {});

  /// A phase without a timeout: this rank has nothing to do until others, who are watched, are
  /// done.
  [[nodiscard]] Phase idle(std::string_view name);

  /// The operation `what` finished. Any thread; two relaxed stores, to be called for every op.
  void progress(std::uint64_t what) noexcept {
    last_.store(what, std::memory_order_relaxed);
    // Not fetch_add: one thread reports at a time, and a lost count among many does no harm.
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Whether the time is over and this rank, if it still runs, is to say what it waits for. Once:
  /// until answer().
  [[nodiscard]] bool asks() const noexcept { return asks_.load(std::memory_order_relaxed); }
  /// Prints lines beneath the block. Too late, they are lost with the process.
  void answer(std::string_view lines);

  /// Where records are, each written as soon as its case is done; for messages.
  void results_in(std::string_view file);

  /// The phases that this rank is in, outermost first, as the block shows them. Any thread.
  [[nodiscard]] std::string where() const;

  /// Ends with exit code 11 because of a signal: says in which phase and aborts, in bounded time.
  /// Of ranks that their launcher ends together only rank 0 speaks, the others linger until it has,
  /// and none aborts, since the launcher kills those that remain. Any thread.
  [[noreturn]] void interrupted(const Signal& signal);

 private:
  struct Entry {
    std::string name;
    Describe describe;
    std::uint64_t count_before;  // of progress() calls
    bool watched;
  };

  Phase enter(Entry entry);
  void leave();
  void watch();
  [[noreturn]] void expire();
  [[noreturn]] void end_all(int exit_code);
  [[nodiscard]] std::string where_locked() const;
  [[nodiscard]] std::string last_finished() const;

  const std::int32_t rank_;
  const std::string host_;
  const std::chrono::nanoseconds timeout_;
  const std::function<void(int)> abort_;
  const Limits limits_;

  mutable std::mutex mutex_;  // phases_ and results_
  std::vector<Entry> phases_;
  std::string results_;  // "records so far are in ..."; empty: nowhere

  // A line of its own: written for every op by the rank, read a few times per timeout.
  alignas(64) std::atomic<std::uint64_t> last_{0};
  std::atomic<std::uint64_t> count_{0};
  alignas(64) std::atomic<std::uint64_t> phase_changes_{0};
  std::atomic<int> idle_{0};  // phases that are not watched
  std::atomic<bool> asks_{false};
  std::atomic<bool> ended_{false};
  Doorbell bell_;
  std::thread thread_;  // last: everything else is ready when it starts
};

}  // namespace commfuse
