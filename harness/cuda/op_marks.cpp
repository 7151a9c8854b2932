// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/op_marks.h"

#include "impls/explain.h"

namespace commfuse {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("commfuse");
  return handle;
}

}  // namespace

OpMarks::OpMarks(const Program& program)
    : rank_(program.plan().rank),
      iteration_(nvtxDomainRegisterStringA(domain(), "iteration")),
      names_(program.events().size()) {
  for (EventId id = 0; id < names_.size(); ++id) {
    if (program.event(id).kind == EventKind::none) continue;
    const std::string name = describe(program.plan(), program.event(id).op);
    names_[id] = nvtxDomainRegisterStringA(domain(), name.c_str());
  }
}

OpMarks::Range::Range(nvtxStringHandle_t name, CuptiTracer* tracer, std::uint64_t id)
    : tracer_(tracer) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = name;
  nvtxDomainRangePushEx(domain(), &attributes);
  if (tracer_ != nullptr) tracer_->push_id(id);
}

OpMarks::Range::~Range() {
  if (tracer_ != nullptr) tracer_->pop_id();
  nvtxDomainRangePop(domain());
}

OpMarks::Range OpMarks::around(EventId event) const {
  return {names_[event], tracer_, event_trace_id(rank_, event)};
}

}  // namespace commfuse
