// SPDX-License-Identifier: Apache-2.0
// The table of functions of the fake CUPTI.
#include "tests/fakecuda/cupti_delivery.h"
#include "tests/fakecuda/fake_cupti.h"
#include "tests/fakecuda/library_call.h"

namespace commfuse::fake {
namespace {

/// Costs host time. After the end of the run: an error of no known cause.
template <class Body>
CUptiResult cupti_call(Body body) {
  return library_call(CUPTI_ERROR_UNKNOWN, [&] {
    Machine::current().advance_host(200);
    return body(FakeCupti::current());
  });
}

CUptiResult get_version(std::uint32_t* version) {
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult get_result_string(CUptiResult result, const char** text) {
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
    case CUPTI_SUCCESS:
      *text = "CUPTI_SUCCESS";
      break;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      break;
    case CUPTI_ERROR_INVALID_PARAMETER:
      *text = "CUPTI_ERROR_INVALID_PARAMETER";
      break;
    default:
      *text = "CUPTI_ERROR_UNKNOWN";
  }
  return CUPTI_SUCCESS;
}

CUptiResult get_timestamp(std::uint64_t* time) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.timestamp(time); });
}

CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.subscribe(subscriber); });
}

CUptiResult unsubscribe(CUpti_SubscriberHandle subscriber) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.unsubscribe(subscriber); });
}

CUptiResult enable(CUpti_ActivityKind kind) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.enable(kind, true); });
}

CUptiResult disable(CUpti_ActivityKind kind) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.enable(kind, false); });
}

CUptiResult enable_driver_api(CUpti_CallbackId call, std::uint8_t enabled) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.enable_driver_call(call, enabled != 0); });
}

CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc request,
                               CUpti_BuffersCallbackCompleteFunc complete) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.register_callbacks(request, complete); });
}

CUptiResult register_timestamp(CUpti_TimestampCallbackFunc callback) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.register_timestamp(callback); });
}

CUptiResult set_attribute(CUpti_ActivityAttribute attribute, std::size_t* bytes, void* value) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.set_attribute(attribute, bytes, value); });
}

CUptiResult flush_all(std::uint32_t flag) {
  return cupti_call([&](FakeCupti& cupti) {
    return cupti.flush((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  });
}

CUptiResult get_dropped(CUcontext, std::uint32_t, std::size_t* count) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.dropped(count); });
}

CUptiResult push_id(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.push(kind, id); });
}

CUptiResult pop_id(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
  return cupti_call([&](FakeCupti& cupti) { return cupti.pop(kind, last); });
}

}  // namespace

CuptiFunctions FakeCupti::functions() {
  CuptiFunctions table;
  table.get_version = get_version;
  table.get_result_string = get_result_string;
  table.get_timestamp = get_timestamp;
  table.subscribe = commfuse::fake::subscribe;
  table.unsubscribe = commfuse::fake::unsubscribe;
  table.activity_enable = commfuse::fake::enable;
  table.activity_disable = disable;
  table.activity_enable_driver_api = enable_driver_api;
  table.activity_register_callbacks = commfuse::fake::register_callbacks;
  table.activity_register_timestamp_callback = commfuse::fake::register_timestamp;
  table.activity_set_attribute = commfuse::fake::set_attribute;
  table.activity_flush_all = flush_all;
  table.activity_get_next_record = next_record;
  table.activity_get_num_dropped_records = get_dropped;
  table.push_external_correlation_id = push_id;
  table.pop_external_correlation_id = pop_id;
  return table;
}

}  // namespace commfuse::fake
