// SPDX-License-Identifier: Apache-2.0
// NCCL's functions that make, describe and end communicators.
#include <fmt/format.h>
#include <nccl.h>

#include "tests/fakecuda/nccl_checks.h"
#include "tests/fakecuda/nccl_group.h"
#include "tests/fakecuda/nccl_world.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {

ncclResult_t check(const ncclComm* comm) {
  if (comm == nullptr) return refuse_call(ncclInvalidArgument, "the communicator is null");
  if (comm->destroyed) {
    throw Finding(Verdict::Kind::use_after_free, comm->clique->name + " was destroyed");
  }
  if (comm->host != Machine::current_rank()) {
    throw Finding(Verdict::Kind::host_error,
                  fmt::format("{} of rank {} was used", comm->clique->name, comm->host));
  }
  return ncclSuccess;
}

namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;

/// Settings of a configuration; without one they stay as they are.
ncclResult_t read(const ncclConfig_t* config, NcclSettings& settings) {
  if (config == nullptr) return ncclSuccess;
  NcclWorld& world = NcclWorld::current();
  if (config->magic != kConfigMagic || config->size != sizeof *config) {
    return world.refuse(ncclInvalidArgument, "the configuration was not initialised");
  }
  if (config->blocking == 0) {
    throw Finding(Verdict::Kind::host_error, "the fake NCCL has blocking communicators only");
  }
  if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs <= 0) {
    return world.refuse(ncclInvalidArgument, fmt::format("maxCTAs is {}", config->maxCTAs));
  }
  const bool split_share = config->splitShare == 0 || config->splitShare == 1;
  if (config->splitShare != NCCL_CONFIG_UNDEF_INT && !split_share) {
    return world.refuse(ncclInvalidArgument, fmt::format("splitShare is {}", config->splitShare));
  }
  const int policy = config->CTAPolicy;
  if (policy != NCCL_CONFIG_UNDEF_INT && policy != NCCL_CTA_POLICY_DEFAULT &&
      policy != NCCL_CTA_POLICY_EFFICIENCY && policy != NCCL_CTA_POLICY_ZERO) {
    return world.refuse(ncclInvalidArgument, fmt::format("CTAPolicy is {}", policy));
  }
  if (policy != NCCL_CONFIG_UNDEF_INT) settings.cta_policy = policy;
  if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT) settings.max_ctas = config->maxCTAs;
  if (split_share) settings.split_share = config->splitShare;
  settings.name = config->commName == nullptr ? "" : config->commName;
  return ncclSuccess;
}

/// Host threads meet: within a group they would have to meet at its end.
void refuse_in_group() {
  if (NcclWorld::current().rank().group_depth == 0) return;
  throw Finding(Verdict::Kind::host_error, "the fake NCCL makes no communicators within a group");
}

ncclResult_t init(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  refuse_in_group();
  NcclWorld& world = NcclWorld::current();
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return world.refuse(ncclInvalidArgument, fmt::format("rank {} of {} ranks", rank, ranks));
  }
  NcclSettings settings;
  if (const ncclResult_t result = read(config, settings); result != ncclSuccess) return result;
  *comm = world.init(id, ranks, rank, settings);
  return ncclSuccess;
}

ncclResult_t split(ncclComm_t parent, int color, int key, ncclComm_t* comm,
                   const ncclConfig_t* config) {
  refuse_in_group();
  NcclWorld& world = NcclWorld::current();
  if (const ncclResult_t result = check(parent); result != ncclSuccess) return result;
  if (comm == nullptr || (color < 0 && color != NCCL_SPLIT_NOCOLOR)) {
    return world.refuse(ncclInvalidArgument, fmt::format("color {}", color));
  }
  NcclSettings settings = config == nullptr ? parent->settings : NcclSettings{};
  if (const ncclResult_t result = read(config, settings); result != ncclSuccess) return result;
  *comm = world.split(*parent, color, key, settings);
  if (world.refused_split != Machine::current_rank()) return ncclSuccess;
  *comm = nullptr;
  return world.refuse(ncclSystemError, "no room for a communicator");
}

}  // namespace
}  // namespace commfuse::fake

using namespace commfuse::fake;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  const bool older = NcclWorld::current().older_rank == Machine::current_rank();
  *version = older ? NCCL_VERSION(2, 27, 3) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call([&] {
    if (id == nullptr) return NcclWorld::current().refuse(ncclInvalidArgument, "the id is null");
    *id = NcclWorld::current().new_id();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return nccl_call([&] { return init(comm, ranks, id, rank, config); });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return nccl_call([&] { return init(comm, ranks, id, rank, nullptr); });
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* comm,
                           ncclConfig_t* config) {
  return nccl_call([&] { return split(parent, color, key, comm, config); });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return nccl_call([&] {
    const ncclResult_t result = check(comm);
    if (result == ncclSuccess) Machine::current().synchronise(comm->stream);
    return result;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return nccl_call([&] {
    if (comm == nullptr) return ncclSuccess;
    const ncclResult_t result = check(comm);
    if (result != ncclSuccess) return result;
    check_destroy(*comm);
    Machine::current().synchronise(comm->stream);
    comm->destroyed = true;
    return ncclSuccess;
  });
}

// Waits for nothing. What was issued stays in the machine, and is a deadlock if it cannot end.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return nccl_call([&] {
    if (comm == nullptr) return ncclSuccess;
    const ncclResult_t result = check(comm);
    if (result == ncclSuccess) comm->destroyed = true;
    return result;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (error != nullptr) *error = ncclUnhandledCudaError;
  return nccl_call([&] {
    const ncclResult_t result = check(comm);
    if (result != ncclSuccess) return result;
    if (error == nullptr) return NcclWorld::current().refuse(ncclInvalidArgument, "error is null");
    *error = ncclSuccess;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return nccl_call([&] {
    const ncclResult_t result = check(comm);
    if (result == ncclSuccess) *count = comm->clique->ranks;
    return result;
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return nccl_call([&] {
    const ncclResult_t result = check(comm);
    if (result == ncclSuccess) *rank = comm->rank;
    return result;
  });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return nccl_call([&] {
    const ncclResult_t result = check(comm);
    if (result == ncclSuccess) *device = Machine::current().device_of(comm->stream);
    return result;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  return library_call("the run has ended",
                      [] { return NcclWorld::current().rank().last_error.c_str(); });
}

}  // extern "C"
