// SPDX-License-Identifier: Apache-2.0
#include "harness/world/process.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace commfuse {
namespace {

struct Launcher {
  const char* ranks;
  const char* rank;
};

// The innermost launcher first: mpirun inside a batch job also sees the job's variables. Slurm's
// SLURM_NTASKS is missing on purpose: it is set in every batch script, also without srun.
constexpr std::array kLaunchers{
    Launcher{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},  // Open MPI
    Launcher{"PMI_SIZE", "PMI_RANK"},                          // MPICH, Intel MPI, Cray MPICH
    Launcher{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},          // srun
};

std::optional<std::int32_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits = text;
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

const Launcher* launcher() {
  for (const Launcher& candidate : kLaunchers) {
    if (number_in(candidate.ranks)) return &candidate;
  }
  return nullptr;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

bool launched_by_mpi() { return launcher() != nullptr; }

std::optional<std::int32_t> launcher_ranks() {
  const Launcher* found = launcher();
  return found == nullptr ? std::nullopt : number_in(found->ranks);
}

std::optional<std::int32_t> launcher_rank() {
  const Launcher* found = launcher();
  return found == nullptr ? std::nullopt : number_in(found->rank);
}

void flush_and_exit(int exit_code) {
  std::cout.flush();
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(exit_code);
}

}  // namespace commfuse
