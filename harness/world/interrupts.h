// SPDX-License-Identifier: Apache-2.0
// Interrupts: turns SIGINT and SIGTERM into a call on a thread of its own, where locks, memory and
// output are allowed. mpirun sends SIGTERM to its ranks on Ctrl-C and SIGKILL soon after.
#pragma once

#include <signal.h>

#include <array>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace commfuse {

struct Signal {
  std::string_view name;  // "SIGINT" or "SIGTERM"
  /// Sent by the process that started this one: mpirun or srun, which sends it to all ranks and
  /// ends them all.
  bool from_launcher = false;
};

/// One per process; a second one throws std::logic_error. As soon as it exists a signal runs the
/// handler, or without one says so and exits with 11. Made before MPI_Init, so that MPI's start is
/// covered.
class Interrupts {
 public:
  /// Usually ends the process.
  using Handler = std::function<void(const Signal& signal)>;

  Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  /// Gives the signals back their former actions, unless they are ignored.
  ~Interrupts();

  /// `handler` is in force as long as this object, whose end waits for a running handler.
  class Scope {
   public:
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { interrupts_->set({}); }

   private:
    friend class Interrupts;
    explicit Scope(Interrupts& interrupts) : interrupts_(&interrupts) {}
    Interrupts* interrupts_;
  };
  [[nodiscard]] Scope handle(Handler handler) {
    set(std::move(handler));
    return Scope(*this);
  }

  /// From here to the end of the process signals do nothing. For a process that ends by itself at
  /// once and whose exit code is known: what comes now would only change that code.
  void ignore();

 private:
  void set(Handler handler);
  void stop();
  void listen(int fd);

  std::array<struct sigaction, 2> former_{};
  std::mutex mutex_;
  Handler handler_;
  std::thread thread_;
};

}  // namespace commfuse
