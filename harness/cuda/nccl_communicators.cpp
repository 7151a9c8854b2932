// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/nccl_communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <span>

#include "harness/cuda/cuda_error.h"
#include "harness/executor.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

ncclUniqueId unique_id(World& group) {
  ncclUniqueId id{};
  if (group.rank() == 0) CFB_CUDA(ncclGetUniqueId(&id));
  return broadcast_values<ncclUniqueId>(group, std::span(&id, 1), 0).front();
}

void refuse_overridden_ctas() {
  for (const char* name : {"NCCL_MAX_CTAS", "NCCL_MIN_CTAS"}) {
    if (std::getenv(name) != nullptr) {
      throw Unsupported(fmt::format(
          "{} in the environment overrides the CTAs of each communicator; unset it", name));
    }
  }
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

NcclCommunicators::NcclCommunicators(World& group, const NcclSettings& settings) {
  refuse_overridden_ctas();
  const ncclUniqueId id = unique_id(group);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "collectives";
  ncclComm_t communicator = nullptr;
  CFB_CUDA(ncclCommInitRankConfig(&communicator, group.ranks(), id, group.rank(), &config));
  collectives_.reset(communicator);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::string name = fmt::format("{} exchanges", name_of(static_cast<Lane>(lane)));
    ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
    own.splitShare = 0;  // resources of its own, so that lanes run at the same time
    own.maxCTAs = settings.exchange_ctas(group.ranks());
    own.commName = name.c_str();
    CFB_CUDA(ncclCommSplit(collectives_.get(), 0, group.rank(), &communicator, &own));
    lanes_[lane].reset(communicator);
  }
}

void NcclCommunicators::check() const {
  const auto check_one = [](ncclComm_t communicator) {
    ncclResult_t state = ncclSuccess;
    CFB_CUDA(ncclCommGetAsyncError(communicator, &state));
    CFB_CUDA(state);
  };
  check_one(collectives_.get());
  for (const Communicator& lane : lanes_) check_one(lane.get());
}

std::string NcclCommunicators::version() {
  int version = 0;
  CFB_CUDA(ncclGetVersion(&version));
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace commfuse
