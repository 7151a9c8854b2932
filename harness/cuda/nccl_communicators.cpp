// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/nccl_communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <span>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/refusal.h"
#include "harness/executor.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

ncclUniqueId unique_id(World& group) {
  ncclUniqueId id{};
  if (group.rank() == 0) CFB_CUDA(ncclGetUniqueId(&id));
  return broadcast_values<ncclUniqueId>(group, std::span(&id, 1), 0).front();
}

/// What overrides the CTAs of this rank; empty if nothing does.
std::string overridden_ctas() {
  for (const char* name : {"NCCL_MAX_CTAS", "NCCL_MIN_CTAS", "NCCL_CTA_POLICY"}) {
    if (std::getenv(name) == nullptr) continue;
    return fmt::format("{} in the environment overrides the CTAs of each communicator; unset it",
                       name);
  }
  return "";
}

/// Collective: whether this rank's NCCL is another than that of rank 0. Their handshakes may
/// differ, and then ranks wait for each other for ever.
std::string other_version(World& group) {
  const std::string own = NcclCommunicators::version();
  const std::string first = text_of(group.broadcast(bytes_of(own), 0));
  if (own == first) return "";
  return fmt::format(
      "rank {} on {} has NCCL {} and rank 0 {}: load one library everywhere (LD_LIBRARY_PATH)",
      group.rank(), group.host(), own, first);
}

/// Those that choose how collectives run; "unset" is a choice too.
constexpr std::array kVariables{"NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE"};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "unset" : value;
}

}  // namespace

void NcclCommunicators::Abort::operator()(ncclComm_t communicator) const {
  // While an exception unwinds the peers cannot be expected to take part in a regular end.
  if (std::uncaught_exceptions() > 0) {
    ncclCommAbort(communicator);
  } else {
    ncclCommDestroy(communicator);
  }
}

NcclCommunicators::NcclCommunicators(World& group, const NcclSettings& settings)
    : group_(group), settings_(settings) {
  refuse_alike(group, overridden_ctas());
  refuse_alike(group, other_version(group));
  const ncclUniqueId id = unique_id(group);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "collectives";
  ncclComm_t communicator = nullptr;
  CFB_CUDA(ncclCommInitRankConfig(&communicator, group.ranks(), id, group.rank(), &config));
  collectives_.front().reset(communicator);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::string name = fmt::format("{} exchanges", name_of(static_cast<Lane>(lane)));
    ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
    own.splitShare = 0;  // resources of its own, so that lanes run at the same time
    own.maxCTAs = settings.exchange_ctas(group.ranks());
    own.commName = name.c_str();
    CFB_CUDA(ncclCommSplit(collectives_.front().get(), 0, group.rank(), &communicator, &own));
    lanes_[lane].reset(communicator);
  }
}

void NcclCommunicators::prepare(CollectiveVia via) {
  Communicator& wanted = collectives_[static_cast<std::size_t>(via)];
  if (wanted != nullptr) return;
  const std::string name = fmt::format("{} collectives", name_of(via));
  ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
  own.splitShare = 0;
  own.commName = name.c_str();
  if (via == CollectiveVia::copy_engine) own.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  std::string refusal;
  try {
    ncclComm_t communicator = nullptr;
    CFB_CUDA(ncclCommSplit(collectives_.front().get(), 0, group_.rank(), &communicator, &own));
    wanted.reset(communicator);
  } catch (const LibraryError& error) {
    refusal = error.what();
    cudaGetLastError();  // what NCCL met would be found by the next launch
  }
  refusal = first_text(group_, refusal);
  if (refusal.empty()) return;
  if (wanted != nullptr) ncclCommAbort(wanted.release());  // another rank has none
  throw Unsupported(fmt::format("collective={}: {}", name_of(via), refusal));
}

void NcclCommunicators::check(std::span<const CollectiveVia> others) const {
  const auto check_one = [](ncclComm_t communicator) {
    ncclResult_t state = ncclSuccess;
    CFB_CUDA(ncclCommGetAsyncError(communicator, &state));
    CFB_CUDA(state);
  };
  check_one(collectives(CollectiveVia::standard));
  for (const CollectiveVia via : others) check_one(collectives(via));
  for (const Communicator& lane : lanes_) check_one(lane.get());
}

std::string NcclCommunicators::version() {
  int version = 0;
  CFB_CUDA(ncclGetVersion(&version));
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::map<std::string, std::string> NcclCommunicators::facts() const {
  std::map<std::string, std::string> facts{
      {"nccl", version()},
      {"exchange_ctas", std::to_string(settings_.exchange_ctas(group_.ranks()))},
      {"collective_ctas", "as NCCL chooses"}};
  std::string ways;
  for (const CollectiveVia via : kCollectiveVia) {
    if (collectives(via) == nullptr) continue;
    ways += fmt::format("{}{}", ways.empty() ? "" : ", ", name_of(via));
  }
  facts["collectives"] = ways;
  if (collectives(CollectiveVia::copy_engine) != nullptr) {
    facts["collective_ctas"] += "; none for copy_engine, where it can";
  }
  if (ways != name_of(CollectiveVia::standard)) {
    facts["registration"] = "done; not known whether NCCL used it";
  }
  for (const char* name : kVariables) facts[name] = variable(name);
  return facts;
}

}  // namespace commfuse
