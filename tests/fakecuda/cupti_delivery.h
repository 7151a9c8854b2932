// SPDX-License-Identifier: Apache-2.0
// CUPTI's records in the client's buffers: writing them there, and walking through them.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace commfuse::fake {

/// Fills buffers that it asks for and hands back. Throws Finding for a buffer that is not 8-byte
/// aligned, or not zero although the client said so.
class CuptiDelivery {
 public:
  CuptiDelivery(CUpti_BuffersCallbackRequestFunc request,
                CUpti_BuffersCallbackCompleteFunc complete, bool zeroed)
      : request_(request), complete_(complete), zeroed_(zeroed) {}

  /// False if the client has no buffer for it.
  template <class Record>
  bool add(const Record& record) {
    static_assert(sizeof(Record) % 8 == 0);
    return add(&record, sizeof record);
  }
  /// Hands back the last buffer.
  void finish();

 private:
  bool add(const void* record, std::size_t bytes);
  bool next_buffer();

  CUpti_BuffersCallbackRequestFunc request_;
  CUpti_BuffersCallbackCompleteFunc complete_;
  bool zeroed_;
  std::uint8_t* buffer_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
  std::size_t most_records_ = 0;  // 0: as many as fit
  std::size_t records_ = 0;
};

/// As cuptiActivityGetNextRecord, for the kinds of records that the fake writes.
CUptiResult next_record(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record);

}  // namespace commfuse::fake
