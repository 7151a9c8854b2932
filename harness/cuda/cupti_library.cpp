// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/cupti_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

namespace commfuse {
namespace {

class Symbols {
 public:
  explicit Symbols(const std::string& file)
      : file_(file), library_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
  }

  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(fmt::format("{} lacks {}", file_, name));
  }

 private:
  std::string file_;
  void* library_;
};

}  // namespace

std::string CuptiLibrary::default_file() {
  return fmt::format("libcupti.so.{}", CUPTI_API_VERSION / 10000);
}

CuptiLibrary CuptiLibrary::open(const std::string& file) {
  const Symbols symbols(file);
  CuptiFunctions all;
  symbols.find("cuptiGetVersion", all.get_version);
  symbols.find("cuptiGetResultString", all.get_result_string);
  symbols.find("cuptiGetTimestamp", all.get_timestamp);
  symbols.find("cuptiSubscribe", all.subscribe);
  symbols.find("cuptiUnsubscribe", all.unsubscribe);
  symbols.find("cuptiActivityEnable", all.activity_enable);
  symbols.find("cuptiActivityDisable", all.activity_disable);
  symbols.find("cuptiActivityEnableDriverApi", all.activity_enable_driver_api);
  symbols.find("cuptiActivityRegisterCallbacks", all.activity_register_callbacks);
  symbols.find("cuptiActivityRegisterTimestampCallback", all.activity_register_timestamp_callback);
  symbols.find("cuptiActivitySetAttribute", all.activity_set_attribute);
  symbols.find("cuptiActivityFlushAll", all.activity_flush_all);
  symbols.find("cuptiActivityGetNextRecord", all.activity_get_next_record);
  symbols.find("cuptiActivityGetNumDroppedRecords", all.activity_get_num_dropped_records);
  symbols.find("cuptiActivityPushExternalCorrelationId", all.push_external_correlation_id);
  symbols.find("cuptiActivityPopExternalCorrelationId", all.pop_external_correlation_id);
  return CuptiLibrary(all);
}

}  // namespace commfuse
