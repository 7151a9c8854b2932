// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/simgrid_platform.h"

#include <fmt/format.h>

#include <stdexcept>

#include "harness/option_values.h"
#include "suite/error.h"
#include "suite/shape.h"

namespace commfuse {
namespace {

namespace s4u = simgrid::s4u;

constexpr double kAnySpeed = 1e9;    // of hosts; nothing is computed on them
constexpr double kUnlimited = 1e18;  // bytes a second

double rate_of(const LinkSpeed& link) {
  return link.bytes_per_second > 0 ? link.bytes_per_second : kUnlimited;
}

/// What the engine is told as if on a command line, which is the only way before it exists.
std::vector<std::string> settings() {
  return {"commfuse-simgrid",
          "--cfg=network/model:CM02",
          "--cfg=network/crosstraffic:0",
          "--cfg=network/TCP-gamma:0",
          "--cfg=surf/precision:1e-13",
          "--cfg=contexts/stack-size:256",
          "--log=root.threshold:warning"};
}

s4u::Engine configured_engine() {
  std::vector<std::string> texts = settings();
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  auto count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  return s4u::Engine(&count, arguments.data());
}

/// A link up and a link down of each port.
struct PortLinks {
  std::vector<s4u::Link*> up, down;
};

PortLinks make_links(s4u::NetZone& zone, const std::string& name, std::size_t count,
                     const LinkSpeed& speed) {
  PortLinks links;
  for (std::size_t i = 0; i < count; ++i) {
    links.up.push_back(zone.create_link(fmt::format("{}{}_up", name, i), rate_of(speed))->seal());
    links.down.push_back(
        zone.create_link(fmt::format("{}{}_down", name, i), rate_of(speed))->seal());
  }
  return links;
}

constexpr std::int64_t kMostLeaves = 65'536;
constexpr std::int64_t kMostOfAKind = 4'096;  // children, parents or links of one switch

std::vector<unsigned int> numbers(const std::string& text) {
  std::vector<unsigned int> values;
  for (const std::string& value : split(text, ',')) {
    const std::int64_t count = parse_count(value, "--fat-tree");
    if (count > kMostOfAKind) {
      throw UsageError(fmt::format("--fat-tree: {} is above {}", value, kMostOfAKind));
    }
    values.push_back(static_cast<unsigned int>(count));
  }
  return values;
}

}  // namespace

SimGridHosts::SimGridHosts(const Network& network, std::int32_t places, const std::string& fat_tree)
    : engine_(configured_engine()) {
  if (fat_tree.empty()) {
    build(network, places);
  } else {
    build_fat_tree(network, places, fat_tree);
  }
}

void SimGridHosts::build(const Network& network, std::int32_t places) {
  s4u::NetZone* const zone = s4u::create_full_zone("ranks");
  for (std::int32_t place = 0; place < places; ++place) {
    hosts_.push_back(zone->create_host(fmt::format("rank{}", place), kAnySpeed)->seal());
  }
  const auto own = static_cast<std::size_t>(places);
  const PortLinks ranks = make_links(*zone, "rank", own, network.inner);
  const PortLinks nics = make_links(*zone, "nic", network.ports(places) - own, network.outer);
  const auto link = [&](const std::vector<s4u::Link*>& of_ranks,
                        const std::vector<s4u::Link*>& of_nics, std::size_t port) {
    return s4u::LinkInRoute(port < own ? of_ranks[port] : of_nics[port - own]);
  };
  for (std::int32_t from = 0; from < places; ++from) {
    for (std::int32_t to = 0; to < places; ++to) {
      if (from == to) continue;
      zone->add_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr,
                      {link(ranks.up, nics.up, network.egress(from, to, places)),
                       link(ranks.down, nics.down, network.ingress(from, to, places))},
                      false);
    }
  }
  zone->seal();
}

void SimGridHosts::build_fat_tree(const Network& network, std::int32_t places,
                                  const std::string& fat_tree) {
  const std::vector<std::string> parts = split(fat_tree, ';');
  if (parts.size() != 4) {
    throw UsageError("--fat-tree takes levels;children;parents;parallel links: \"2;4,4;1,2;1,2\"");
  }
  std::int64_t leaves = 1;
  for (const unsigned int children : numbers(parts[1])) {
    leaves *= children;
    if (leaves > kMostLeaves) {
      throw UsageError(fmt::format("--fat-tree: more than {} leaves", kMostLeaves));
    }
  }
  if (leaves < places) {
    throw UsageError(fmt::format("this fat tree has {} leaves for {} ranks", leaves, places));
  }
  try {
    const s4u::FatTreeParams tree(numbers(parts[0]).at(0), numbers(parts[1]), numbers(parts[2]),
                                  numbers(parts[3]));
    s4u::ClusterCallbacks callbacks([this](s4u::NetZone* zone,
                                           const std::vector<unsigned long>& /*coordinates*/,
                                           unsigned long id) {
      hosts_.push_back(zone->create_host(fmt::format("rank{}", id), kAnySpeed)->seal());
      return std::make_pair(hosts_.back()->get_netpoint(),
                            static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
    });
    s4u::create_fatTree_zone("tree", nullptr, tree, callbacks, rate_of(network.inner), 0.0,
                             s4u::Link::SharingPolicy::SPLITDUPLEX)
        ->seal();
  } catch (const std::invalid_argument& error) {
    throw UsageError(fmt::format("--fat-tree {}: {}", fat_tree, error.what()));
  }
}

}  // namespace commfuse
