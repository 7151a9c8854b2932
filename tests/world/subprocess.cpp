// SPDX-License-Identifier: Apache-2.0
#include "tests/world/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <thread>

namespace commfuse {

Subprocess::Subprocess(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category());
  pipe_ = ends[0];
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) throw std::system_error(error, std::generic_category(), arguments[0]);
}

Subprocess::~Subprocess() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(pipe_);
}

// False at the end of the output or of the time.
bool Subprocess::read_some(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  pollfd entry{pipe_, POLLIN, 0};
  if (poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) <= 0) return false;
  std::array<char, 4096> buffer{};
  const auto got = read(pipe_, buffer.data(), buffer.size());
  if (got <= 0) return false;
  output_.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

bool Subprocess::wait_for(std::string_view text, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (output_.find(text) == std::string::npos) {
    if (!read_some(deadline)) return false;
  }
  return true;
}

void Subprocess::signal(int number) const { kill(pid_, number); }

int Subprocess::wait(std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (read_some(deadline)) {
  }
  for (int status = 0; std::chrono::steady_clock::now() < deadline;) {
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      ended_ = true;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return -2;
}

}  // namespace commfuse
