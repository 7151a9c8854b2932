// SPDX-License-Identifier: Apache-2.0
// A plan as executor and channels share it.
#pragma once

#include "harness/cuda/compute_events.h"
#include "harness/cuda/op_marks.h"
#include "harness/program.h"

namespace commfuse {

struct CudaPlan {
  explicit CudaPlan(const Plan& plan) : program(plan), compute_events(program), marks(program) {}
  CudaPlan(const CudaPlan&) = delete;  // its parts refer to each other
  CudaPlan& operator=(const CudaPlan&) = delete;

  Program program;
  ComputeEvents compute_events;
  OpMarks marks;
};

}  // namespace commfuse
