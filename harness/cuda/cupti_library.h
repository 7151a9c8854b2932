// SPDX-License-Identifier: Apache-2.0
// CUPTI, opened at run time: without it there is no timeline, and everything else goes on.
#pragma once

#include <cupti.h>

#include <string>

namespace commfuse {

/// The functions that are used. A test puts others in their place.
struct CuptiFunctions {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiGetTimestamp) get_timestamp = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiActivityEnable) activity_enable = nullptr;
  decltype(&cuptiActivityDisable) activity_disable = nullptr;
  decltype(&cuptiActivityEnableDriverApi) activity_enable_driver_api = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) activity_register_callbacks = nullptr;
  decltype(&cuptiActivityRegisterTimestampCallback) activity_register_timestamp_callback = nullptr;
  decltype(&cuptiActivitySetAttribute) activity_set_attribute = nullptr;
  decltype(&cuptiActivityFlushAll) activity_flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) activity_get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) activity_get_num_dropped_records = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external_correlation_id = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external_correlation_id = nullptr;
};

class CuptiLibrary {
 public:
  /// Functions of a caller's choice; nothing is opened.
  explicit CuptiLibrary(const CuptiFunctions& functions) : functions_(functions) {}
  /// Opens `file` (libcupti's soname by default). Throws std::runtime_error with the loader's
  /// reason, or with the function that the library lacks. Never closed: CUPTI's threads outlive
  /// whoever asked for them.
  static CuptiLibrary open(const std::string& file = default_file());
  static std::string default_file();

  const CuptiFunctions* operator->() const { return &functions_; }

 private:
  CuptiFunctions functions_;
};

}  // namespace commfuse
