// SPDX-License-Identifier: Apache-2.0
// NCCL's functions for memory and its registration.
#include <fmt/format.h>
#include <nccl.h>

#include <cstdint>
#include <optional>

#include "tests/fakecuda/call_fault.h"
#include "tests/fakecuda/nccl_checks.h"
#include "tests/fakecuda/nccl_registry.h"
#include "tests/fakecuda/nccl_world.h"

namespace commfuse::fake {
namespace {

ncclResult_t deregister(ncclComm* comm, void* handle, bool window) {
  if (const ncclResult_t result = check(comm); result != ncclSuccess) return result;
  CallFault* const fault = CallFault::current();
  if (fault != nullptr && fault->stays_registered()) return ncclSuccess;
  return give_back(*comm, handle, window);
}

/// After all ranks have met where they do.
ncclResult_t answer(ncclComm& comm, const Range& range, std::optional<std::int64_t> window,
                    void** handle) {
  NcclWorld& world = NcclWorld::current();
  if (world.refused_rank == Machine::current_rank()) {
    return world.refuse(ncclSystemError, "no room to map the memory");
  }
  *handle = world.registers_nothing ? nullptr : &add_buffer(comm, range, window);
  return ncclSuccess;
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
  const std::int64_t number = comm->windows++;
  world.meet(*comm->clique, comm->rank, fmt::format("window {}", number),
             fmt::format(", {} bytes", bytes));
  void* handle = nullptr;
  const ncclResult_t result = answer(*comm, {buffer, bytes}, number, &handle);
  *window = static_cast<ncclWindow_t>(handle);
  return result;
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
    *pointer = Machine::current().allocate(bytes, "nccl memory", NCCL_WIN_REQUIRED_ALIGNMENT);
    NcclWorld::current().memory[*pointer] = bytes;
    return ncclSuccess;
  });
}

ncclResult_t ncclMemFree(void* pointer) {
  return nccl_call([&] {
    if (pointer == nullptr) return ncclSuccess;
    check_free({pointer, NcclWorld::current().memory[pointer]});
    Machine::current().release(pointer);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return nccl_call([&] {
    if (const ncclResult_t result = check(comm); result != ncclSuccess) return result;
    if (buffer == nullptr || bytes == 0 || handle == nullptr) {
      return NcclWorld::current().refuse(ncclInvalidArgument, "a buffer without bytes");
    }
    return answer(*comm, {buffer, bytes}, {}, handle);
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return nccl_call([&] { return deregister(comm, handle, false); });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                    ncclWindow_t* window, int flags) {
  return nccl_call([&] { return register_window(comm, buffer, bytes, window, flags); });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return nccl_call([&] { return deregister(comm, window, true); });
}

}  // extern "C"
