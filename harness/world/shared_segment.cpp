// SPDX-License-Identifier: Apache-2.0
#include "harness/world/shared_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/world/wire.h"

namespace commfuse {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, std::size_t bytes) noexcept : address_(address), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (address_ != nullptr) munmap(address_, bytes_);
  }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(address_), bytes_};
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

// What a peer needs to map a block, and to know that it got the right one: inside another PID
// namespace the same number is another process.
struct Address {
  std::int64_t pid = 0;
  std::int64_t fd = -1;
  std::uint64_t bytes = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

FileDescriptor make_memory_file(std::size_t bytes) {
  FileDescriptor file(memfd_create("commfuse", MFD_CLOEXEC));
  if (file.get() < 0) fail("memfd_create");
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    fail(fmt::format("ftruncate to {} bytes", bytes));
  }
  return file;
}

Mapping map(const FileDescriptor& file, std::size_t bytes) {
  if (bytes == 0) return {};
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) fail(fmt::format("mmap of {} bytes", bytes));
  return {address, bytes};
}

Address address_of(const FileDescriptor& file, std::size_t bytes) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail("fstat");
  return {getpid(), file.get(), bytes, status.st_dev, status.st_ino};
}

Mapping map_block_of(std::int32_t rank, const Address& peer) {
  const std::string path = fmt::format("/proc/{}/fd/{}", peer.pid, peer.fd);
  const std::string what = fmt::format("memory of rank {}: open {}", rank, path);
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) fail(what);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail(what);
  if (status.st_dev != peer.device || status.st_ino != peer.inode) {
    throw std::runtime_error(what + ": another process's file (separate PID namespaces?)");
  }
  return map(file, peer.bytes);
}

// Throws on every rank if `error` is not empty on any: a segment exists everywhere or nowhere.
void agree(World& world, const std::string& error) {
  const std::string first = first_text(world, error);
  if (!first.empty()) throw std::runtime_error("no shared memory between the ranks: " + first);
}

template <class Step>
std::string error_of(const World& world, Step&& step) {
  try {
    step();
    return {};
  } catch (const std::exception& error) {
    return fmt::format("rank {} on {}: {}", world.rank(), world.host(), error.what());
  }
}

std::vector<Address> all_gather(World& world, const Address& own) {
  std::vector<Address> all(static_cast<std::size_t>(world.ranks()));
  const auto cards = world.gather(std::as_bytes(std::span(&own, 1)), 0);
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    std::memcpy(&all[rank], cards[rank].data(), sizeof(Address));
  }
  const auto bytes = world.broadcast(std::as_bytes(std::span(all)), 0);
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

class ProcessSegment final : public SharedSegment {
 public:
  ProcessSegment(World& world, std::size_t bytes)
      : blocks_(static_cast<std::size_t>(world.ranks())) {
    const auto own = static_cast<std::size_t>(world.rank());
    FileDescriptor file;
    Address address;
    agree(world, error_of(world, [&] {
            file = make_memory_file(bytes);
            blocks_[own] = map(file, bytes);
            address = address_of(file, bytes);
          }));
    const std::vector<Address> peers = all_gather(world, address);
    // The file stays open until everybody has mapped it, which agree() also waits for.
    agree(world, error_of(world, [&] {
            for (std::size_t rank = 0; rank < peers.size(); ++rank) {
              if (rank == own || peers[rank].bytes == 0) continue;
              blocks_[rank] = map_block_of(static_cast<std::int32_t>(rank), peers[rank]);
            }
          }));
  }

  [[nodiscard]] std::span<std::byte> block(std::int32_t rank) const override {
    return blocks_.at(static_cast<std::size_t>(rank)).bytes();
  }

 private:
  std::vector<Mapping> blocks_;
};

}  // namespace

std::unique_ptr<SharedSegment> share_between_processes(World& world, std::size_t bytes) {
  return std::make_unique<ProcessSegment>(world, bytes);
}

}  // namespace commfuse
