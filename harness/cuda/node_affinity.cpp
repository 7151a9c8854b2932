// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/node_affinity.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <system_error>

namespace commfuse {
namespace {

namespace fs = std::filesystem;

constexpr int kMostProcessors = 64 * 1024;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Takes a number off the front of a text; absent if there is none.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

int node_in(const fs::path& path) {
  const std::string line = first_line(path);
  std::string_view text = line;
  return take_number(text).value_or(kNoNode);
}

/// Names in a folder, in order; none if there is no such folder.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code unknown;
  for (const auto& entry : fs::directory_iterator(folder, unknown)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> all;
  while (const auto first = take_number(text)) {
    int last = *first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number(text).value_or(*first);
    }
    for (int i = *first; i <= std::min(last, kMostProcessors); ++i) all.push_back(i);
    if (!text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  return all;
}

int memory_node_of(const fs::path& root, const std::string& pci) {
  std::string name = pci;  // the kernel writes small letters, CUDA capitals
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return node_in(root / "sys/bus/pci/devices" / name / "numa_node");
}

std::map<int, std::vector<int>> processors_of_nodes(const fs::path& root) {
  std::map<int, std::vector<int>> nodes;
  const fs::path folder = root / "sys/devices/system/node";
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with("node")) continue;
    std::string_view number = std::string_view(name).substr(4);
    const auto node = take_number(number);
    if (!node || !number.empty()) continue;
    nodes[*node] = parse_cpu_list(first_line(folder / name / "cpulist"));
  }
  return nodes;
}

std::vector<NetworkCard> network_cards(const fs::path& root) {
  std::vector<NetworkCard> cards;
  const fs::path folder = root / "sys/class/infiniband";
  for (const std::string& name : names_in(folder)) {
    cards.push_back({name, node_in(folder / name / "device/numa_node")});
  }
  return cards;
}

std::vector<int> allowed_processors() {
  std::vector<int> allowed;
  for (int room = 1024; room <= kMostProcessors; room *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(room));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(room));
    const bool fits = sched_getaffinity(0, bytes, set) == 0;
    for (int i = 0; fits && i < room; ++i) {
      if (CPU_ISSET_S(static_cast<std::size_t>(i), bytes, set)) allowed.push_back(i);
    }
    CPU_FREE(set);
    if (fits) break;
  }
  return allowed;
}

std::optional<bool> profiling_for_administrators(const fs::path& root) {
  std::ifstream file(root / "proc/driver/nvidia/params");
  constexpr std::string_view kName = "RmProfilingAdminOnly:";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kName)) continue;
    return line.find('1', kName.size()) != std::string::npos;
  }
  return {};
}

}  // namespace commfuse
