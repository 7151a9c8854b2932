// SPDX-License-Identifier: Apache-2.0
#include "harness/environment.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

#include "harness/provenance.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

constexpr std::array kVariables{"OPENBLAS_NUM_THREADS",
                                "OPENBLAS_CORETYPE",
                                "OMP_NUM_THREADS",
                                "OMP_PROC_BIND",
                                "OMPI_MCA_btl",
                                "OMPI_MCA_pml",
                                "OMPI_MCA_mpi_yield_when_idle",
                                "OMPI_MCA_rmaps_base_oversubscribe",
                                "SLURM_CPU_BIND",
                                "CUDA_DEVICE_MAX_CONNECTIONS",
                                "CUDA_VISIBLE_DEVICES",
                                "NCCL_ALGO",
                                "NCCL_PROTO",
                                "NCCL_NVLS_ENABLE",
                                "NCCL_CUMEM_ENABLE",
                                "NCCL_GRAPH_REGISTER",
                                "NCCL_LOCAL_REGISTER",
                                "NCCL_WIN_ENABLE",
                                "NCCL_LAUNCH_ORDER_IMPLICIT",
                                "NCCL_P2P_LEVEL",
                                "NCCL_NET",
                                "NCCL_IB_DISABLE",
                                "NCCL_SOCKET_IFNAME"};

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

nlohmann::ordered_json kernel() {
  utsname name{};
  if (uname(&name) != 0) return nullptr;
  return fmt::format("{} {}", name.sysname, name.release);
}

}  // namespace

nlohmann::ordered_json describe_environment(World& world,
                                            const std::map<std::string, std::string>& libraries) {
  const auto hosts = world.gather(bytes_of(world.host()), 0);
  if (world.rank() != 0) return {};
  nlohmann::ordered_json environment;
  for (const auto& host : hosts) environment["hosts"].push_back(text_of(host));
  environment["cpu"] = cpu_model();
  environment["cores"] = sysconf(_SC_NPROCESSORS_ONLN);
  environment["kernel"] = kernel();
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty()) environment["governor"] = governor;
  environment["load_average"] = first_line("/proc/loadavg");
  environment.update(build_facts());
  environment["libraries"] = libraries;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  for (const char* name : kVariables) {
    if (const char* value = std::getenv(name)) variables[name] = value;
  }
  environment["variables"] = std::move(variables);
  return environment;
}

}  // namespace commfuse
