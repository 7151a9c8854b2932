// SPDX-License-Identifier: Apache-2.0
#include "harness/world/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "harness/world/process.h"
#include "harness/world/say.h"
#include "harness/world/watchdog.h"

namespace commfuse {
namespace {

// A handler and a pipe, not blocked signals and sigwait: libraries start threads before main runs
// (OpenBLAS does), which nobody can make block a signal.
struct Message {
  int number;  // of the signal; kStop ends the thread
  pid_t sender;
};
constexpr int kStop = 0;
constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

// The only way into a signal handler. -1: no Interrupts exists.
std::atomic<int> pipe_end{-1};
static_assert(std::atomic<int>::is_always_lock_free);

// Short enough for the pipe to take it whole.
void send(int fd, Message message) noexcept {
  [[maybe_unused]] const auto written = write(fd, &message, sizeof message);
}

extern "C" void commfuse_on_signal(int number, siginfo_t* info, void* /*context*/) {
  const int saved = errno;
  // A terminal's signal has no sender.
  send(pipe_end.load(std::memory_order_relaxed),
       {number, info->si_code == SI_USER ? info->si_pid : 0});
  errno = saved;
}

Signal signal_of(const Message& message) {
  return {message.number == SIGINT ? "SIGINT" : "SIGTERM",
          launched_by_mpi() && message.sender == getppid()};
}

void exit_without_handler(const Signal& signal) {
  const std::string line =
      std::string(program_name()) + ": interrupted by " + std::string(signal.name) + "\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  _exit(kExitInterrupted);
}

}  // namespace

Interrupts::Interrupts() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe for signals");
  }
  int none = -1;
  if (!pipe_end.compare_exchange_strong(none, ends[1])) {
    close(ends[0]);
    close(ends[1]);
    throw std::logic_error("signals are handled already");
  }
  thread_ = std::thread([this, fd = ends[0]] { listen(fd); });
  struct sigaction action {};
  action.sa_sigaction = commfuse_on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &former_[i]);
    // nohup and background jobs of scripts ignore SIGINT: that is their wish.
    if (former_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  if (!thread_.joinable()) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_[i], nullptr);
  stop();
}

void Interrupts::ignore() {
  for (const int number : kSignals) std::signal(number, SIG_IGN);
  stop();
}

void Interrupts::stop() {
  const int fd = pipe_end.exchange(-1);
  send(fd, {kStop, 0});
  thread_.join();
  close(fd);
}

void Interrupts::set(Handler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

void Interrupts::listen(int fd) {
  for (Message message{};;) {
    if (read(fd, &message, sizeof message) < 0 && errno == EINTR) continue;
    if (message.number == kStop) break;
    const Signal signal = signal_of(message);
    const std::lock_guard lock(mutex_);
    if (!handler_) exit_without_handler(signal);
    handler_(signal);
  }
  close(fd);
}

}  // namespace commfuse
