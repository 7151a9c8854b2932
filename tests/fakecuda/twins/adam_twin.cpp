// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/twins/adam_twin.h"

#include <cmath>

#include "harness/cuda/adam_views.h"
#include "suite/adam_factors.h"
#include "tests/fakecuda/twins/elements.h"

namespace commfuse::fake {
namespace {

void run_adam(const AdamViews& views) {
  for (std::int64_t row = 0; row < views.new_w.total_rows(); ++row) {
    for (std::int64_t col = 0; col < views.new_w.cols; ++col) {
      const auto in = [=](const DeviceView& view) {
        return load(view.data, row_offset(view, row) + col, view.dtype);
      };
      const auto out = [=](const DeviceView& view, float value) {
        store(value, view.data, row_offset(view, row) + col, view.dtype);
      };
      const float g = in(views.g);
      const float m = kAdamBeta1F * in(views.m) + kAdamRest1F * g;
      const float v = kAdamBeta2F * std::abs(in(views.v)) + kAdamRest2F * (g * g);
      const float divisor = std::sqrt(v * kAdamUnbiasedF) + kAdamEpsilonF;
      const float w = kAdamKeptF * in(views.w) - kAdamStepSizeF * (m / divisor);
      out(views.new_w, w);
      out(views.new_m, m);
      out(views.new_v, v);
      if (views.copy.data != nullptr) out(views.copy, w);
    }
  }
}

}  // namespace

template <int Elements>
Work adam_rows(const Launch& launch) {
  const auto views = argument<AdamViews>(launch, 0);
  const bool copied = views.copy.data != nullptr;
  const DeviceView last = copied ? views.copy : views.g;
  require_rows_covered("adam_rows", launch, views.new_w.total_rows());
  require_vectors(
      "adam_rows", Elements,
      {views.new_w, views.new_m, views.new_v, views.w, views.m, views.v, views.g, last});
  Work work = work_of("adam_rows", views.new_w, {views.w, views.m, views.v, views.g});
  append(work.writes, views.new_m, bytes_of(views.new_m.dtype));
  append(work.writes, views.new_v, bytes_of(views.new_v.dtype));
  if (copied) append(work.writes, views.copy, bytes_of(views.copy.dtype));
  work.duration_ns = duration_ns(work.reads, work.writes);
  work.run = [=] { run_adam(views); };
  return work;
}

template Work adam_rows<1>(const Launch&);
template Work adam_rows<4>(const Launch&);

}  // namespace commfuse::fake
