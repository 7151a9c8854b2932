// SPDX-License-Identifier: Apache-2.0
// NCCL's functions for memory and its registration. Registration changes nothing about what moves;
// only handles are checked.
#include <fmt/format.h>
#include <nccl.h>

#include <cstdint>

#include "tests/fakecuda/nccl_checks.h"
#include "tests/fakecuda/nccl_world.h"

namespace commfuse::fake {
namespace {

ncclResult_t give_back(ncclComm* comm, void* handle) {
  if (const ncclResult_t result = check(comm); result != ncclSuccess) return result;
  const auto found = comm->registrations.find(handle);
  if (found == comm->registrations.end()) {
    return NcclWorld::current().refuse(ncclInvalidArgument, "the handle is not registered");
  }
  comm->registrations.erase(found);
  return ncclSuccess;
}

/// The handle of a buffer is its address, as often as it is registered.
void* new_handle(ncclComm& comm, void* buffer) {
  comm.registrations.insert(buffer);
  return buffer;
}

ncclResult_t register_window(ncclComm* comm, void* buffer, std::size_t bytes, ncclWindow_t* window,
                             int flags) {
  if (const ncclResult_t result = check(comm); result != ncclSuccess) return result;
  NcclWorld& world = NcclWorld::current();
  if (buffer == nullptr || bytes == 0 || window == nullptr) {
    return world.refuse(ncclInvalidArgument, "a window without bytes");
  }
  if ((flags & ~NCCL_WIN_COLL_SYMMETRIC) != 0) {
    return world.refuse(ncclInvalidArgument, fmt::format("flags {} of a window", flags));
  }
  if (reinterpret_cast<std::uintptr_t>(buffer) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
    return world.refuse(ncclInvalidArgument, "the window is not aligned");
  }
  world.meet(*comm->clique, comm->rank, fmt::format("window {}", comm->windows++));
  *window = static_cast<ncclWindow_t>(new_handle(*comm, buffer));
  return ncclSuccess;
}

}  // namespace
}  // namespace commfuse::fake

using namespace commfuse::fake;

extern "C" {

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return nccl_call([&] {
    if (pointer == nullptr || bytes == 0) {
      return NcclWorld::current().refuse(ncclInvalidArgument, "memory without bytes");
    }
    *pointer = Machine::current().allocate(bytes, "nccl memory");
    return ncclSuccess;
  });
}

ncclResult_t ncclMemFree(void* pointer) {
  return nccl_call([&] {
    if (pointer != nullptr) Machine::current().release(pointer);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return nccl_call([&] {
    if (const ncclResult_t result = check(comm); result != ncclSuccess) return result;
    if (buffer == nullptr || bytes == 0 || handle == nullptr) {
      return NcclWorld::current().refuse(ncclInvalidArgument, "a buffer without bytes");
    }
    *handle = new_handle(*comm, buffer);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return nccl_call([&] { return give_back(comm, handle); });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                    ncclWindow_t* window, int flags) {
  return nccl_call([&] { return register_window(comm, buffer, bytes, window, flags); });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return nccl_call([&] { return give_back(comm, window); });
}

}  // extern "C"
