// SPDX-License-Identifier: Apache-2.0
#include "harness/peak.h"

#include <fmt/format.h>

#include "harness/record/gpu_datasheet.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

struct Column {
  const char* name;
  double tflops;
};

Column column_of(const GpuDatasheet& datasheet, DType dtype, bool tf32) {
  switch (dtype) {
    case DType::bf16:
      return {"bf16", datasheet.bf16_tflops};
    case DType::f16:
      return {"fp16", datasheet.fp16_tflops};
    case DType::f32:
      break;
  }
  return tf32 ? Column{"tf32", datasheet.tf32_tflops} : Column{"fp32", datasheet.fp32_tflops};
}

}  // namespace

RankDevice agreed_device(World& world, const RankDevice& own) {
  const std::string first = text_of(world.broadcast(bytes_of(own.name), 0));
  const bool differs = world.max(first == own.name ? 0 : 1) > 0;
  const auto ranks = static_cast<std::int32_t>(world.max(own.ranks));
  return {differs ? "" : first, ranks};
}

Peak reference_peak(const Options& options, const RankDevice& device, DType dtype,
                    const Peak& measured) {
  if (options.peak_tflops > 0) return {"peak given by --peak-tflops", options.peak_tflops * 1e12};
  const GpuDatasheet* const datasheet = datasheet_of(device.name);
  if (datasheet == nullptr) return measured;
  const Column column = column_of(*datasheet, dtype, options.settings.tf32);
  if (column.tflops == 0) return measured;
  const std::string shared =
      device.ranks > 1 ? fmt::format(", of a device that {} ranks share", device.ranks) : "";
  return {fmt::format("{} peak{} ({})", column.name, shared, datasheet->source),
          column.tflops * 1e12 / device.ranks};
}

}  // namespace commfuse
