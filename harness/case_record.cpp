// SPDX-License-Identifier: Apache-2.0
#include "harness/case_record.h"

namespace commfuse {
namespace {

nlohmann::ordered_json shape_json(const WorkloadEntry& workload, const Shape& shape) {
  nlohmann::ordered_json json{
      {"model", shape.model},       {"hidden", shape.hidden},
      {"ffn", shape.ffn},           {"heads", shape.heads},
      {"kv_heads", shape.kv_heads}, {"head_dim", shape.head_dim},
      {"layers", shape.layers},     {"activation", name_of(shape.activation)},
      {"causal", shape.causal},     {"tokens", shape.tokens}};
  if (makes_gradients(workload)) json["grad_dtype"] = name_of(shape.gradient);
  if (workload.reduces_gradients && shape.bucket > 0) json["bucket"] = shape.bucket;
  return json;
}

}  // namespace

Record record_of(const CaseGroup& group, const CaseRow& row) {
  Record record;
  record.id = row.id;
  record.workload = group.workload->name;
  record.impl = row.impl;
  record.shape = shape_json(*group.workload, group.shape);
  record.ranks = group.mesh.group_ranks();
  if (group.meshed) record.mesh = group.mesh.text();
  record.dtype = name_of(group.shape.dtype);
  record.pass = group.workload->pass;
  record.backend = group.backend;
  record.transport = group.transport;
  record.link = group.link.text;
  record.mode = group.mode == Mode::isolated ? "isolated" : "steady";
  return record;
}

}  // namespace commfuse
