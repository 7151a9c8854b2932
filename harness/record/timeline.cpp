// SPDX-License-Identifier: Apache-2.0
#include "harness/record/timeline.h"

namespace commfuse {

std::string_view name_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::model:
      return "model";
    case SpanKind::elementwise:
      return "elementwise";
    case SpanKind::overhead:
      return "overhead";
    case SpanKind::transfer:
      return "transfer";
    case SpanKind::collective:
      return "collective";
  }
  return "unknown";
}

}  // namespace commfuse
