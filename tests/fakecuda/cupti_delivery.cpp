// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/cupti_delivery.h"

#include <algorithm>
#include <cstring>

#include "harness/cuda/cupti_records.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

/// 0 for a kind that the fake does not write.
std::size_t bytes_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(KernelRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(PeerCopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(MemsetRecord);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(ApiRecord);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(ExternalRecord);
    default:
      return 0;
  }
}

void refuse(const char* what) { throw Finding(Verdict::Kind::host_error, what); }

}  // namespace

bool CuptiDelivery::next_buffer() {
  finish();
  if (request_ == nullptr) return false;
  request_(&buffer_, &size_, &most_records_);
  if (buffer_ == nullptr) return false;
  if (reinterpret_cast<std::uintptr_t>(buffer_) % 8 != 0) {
    refuse("a buffer for CUPTI is not aligned to 8 bytes");
  }
  const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
  if (zeroed_ && !std::all_of(buffer_, buffer_ + size_, is_zero)) {
    refuse("a buffer for CUPTI was promised to be zero, and is not");
  }
  return true;
}

bool CuptiDelivery::add(const void* record, std::size_t bytes) {
  const bool full = used_ + bytes > size_ || (most_records_ > 0 && records_ == most_records_);
  if ((buffer_ == nullptr || full) && !next_buffer()) return false;
  if (bytes > size_) return false;
  std::memcpy(buffer_ + used_, record, bytes);
  used_ += bytes;
  ++records_;
  return true;
}

void CuptiDelivery::finish() {
  if (buffer_ != nullptr) complete_(nullptr, 0, buffer_, size_, used_);
  buffer_ = nullptr;
  size_ = used_ = most_records_ = records_ = 0;
}

CUptiResult next_record(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  std::uint8_t* next = buffer;
  if (*record != nullptr) {
    next = reinterpret_cast<std::uint8_t*>(*record) + bytes_of((*record)->kind);
  }
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* const found = reinterpret_cast<CUpti_Activity*>(next);
  if (bytes_of(found->kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  *record = found;
  return CUPTI_SUCCESS;
}

}  // namespace commfuse::fake
