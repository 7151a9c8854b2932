// SPDX-License-Identifier: Apache-2.0
// Rates of the host kernels. Ops with FLOPs are timed in turn with a plain sgemm, so that
// `of_sgemm`, their share of its rate, holds whatever else the machine does meanwhile. Look at the
// kernels that OpenBLAS chose (the context line `blas`) before comparing machines.
#include <benchmark/benchmark.h>
#include <time.h>

#include <array>
#include <cstdint>
#include <vector>

#include "harness/host/blas.h"
#include "harness/host/kernels.h"
#include "suite/compute.h"
#include "tests/host/tensor_set.h"

namespace commfuse {
namespace {

constexpr std::int64_t kReference = 1024;  // size of the sgemm that rates are compared with

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Times of this thread in turns: the op, then the reference.
void time_beside_sgemm(benchmark::State& state, HostKernels& kernels, const Compute& op,
                       const Storage& storage) {
  kernels.prepare(op, storage);
  const std::vector<float> a(kReference * kReference, 0.5F);
  std::vector<float> c(a.size());
  const auto reference = [&] {
    sgemm(kReference, kReference, kReference, 1.0F, {.data = a.data(), .ld = kReference},
          {.data = a.data(), .ld = kReference, .transposed = true}, 0.0F, c.data(), kReference);
  };
  kernels.run(op, storage);
  reference();
  double op_seconds = 0;
  double reference_seconds = 0;
  for (auto _ : state) {
    const double begin = thread_seconds();
    kernels.run(op, storage);
    const double between = thread_seconds();
    reference();
    const double end = thread_seconds();
    state.SetIterationTime(between - begin);
    op_seconds += between - begin;
    reference_seconds += end - between;
  }
  const auto iterations = static_cast<double>(state.iterations());
  const double rate = static_cast<double>(flops(op)) * iterations / op_seconds;
  const double reference_rate =
      2.0 * kReference * kReference * kReference * iterations / reference_seconds;
  state.counters["flop/s"] = rate;
  state.counters["of_sgemm"] = rate / reference_rate;
}

View filled(TensorSet& set, std::int32_t rows, std::int32_t cols, DType dtype) {
  const TensorId id = set.add(rows, cols, dtype);
  set.fill_random(id, id);
  return set.all(id);
}

DType dtype_of(const benchmark::State& state, int argument) {
  return static_cast<DType>(state.range(argument));
}

/// Arguments: M, N, K, dtype, whether another C is added.
void gemm(benchmark::State& state) {
  const auto m = static_cast<std::int32_t>(state.range(0));
  const auto n = static_cast<std::int32_t>(state.range(1));
  const auto k = static_cast<std::int32_t>(state.range(2));
  const DType dtype = dtype_of(state, 3);
  TensorSet set;
  Gemm op;
  op.d = filled(set, m, n, dtype);
  op.a = filled(set, m, k, dtype);
  op.b = filled(set, n, k, dtype);
  if (state.range(4) != 0) op.c = filled(set, m, n, dtype);
  HostKernels kernels;
  kernels.expand_weights(std::array{op.b.tensor}, set.storage());
  time_beside_sgemm(state, kernels, op, set.storage());
}
BENCHMARK(gemm)
    ->ArgNames({"m", "n", "k", "dtype", "c"})
    ->ArgsProduct({{64, 512, 2048}, {2048}, {1024}, {0, 1, 2}, {0, 1}})
    ->UseManualTime();

/// Arguments: tokens, heads, kv heads, head dim, mask, dtype. One slice of 4 of the queries.
void attention(benchmark::State& state) {
  const auto tokens = static_cast<std::int32_t>(state.range(0));
  const auto heads = static_cast<std::int32_t>(state.range(1));
  const auto kv_heads = static_cast<std::int32_t>(state.range(2));
  const auto head_dim = static_cast<std::int32_t>(state.range(3));
  const DType dtype = dtype_of(state, 5);
  TensorSet set;
  Attention op{.o = filled(set, tokens, heads * head_dim, dtype),
               .q = filled(set, tokens, heads * head_dim, dtype),
               .k = filled(set, tokens, kv_heads * head_dim, dtype),
               .v = filled(set, tokens, kv_heads * head_dim, dtype),
               .heads = heads,
               .kv_heads = kv_heads,
               .head_dim = head_dim,
               .mask = static_cast<Mask>(state.range(4))};
  op.o.row = op.q.row = tokens / 4;
  op.o.rows = op.q.rows = tokens / 4;
  HostKernels kernels;
  time_beside_sgemm(state, kernels, op, set.storage());
}
BENCHMARK(attention)
    ->ArgNames({"tokens", "heads", "kv_heads", "head_dim", "causal", "dtype"})
    ->ArgsProduct({{1024, 4096}, {4}, {1, 4}, {128}, {0, 1}, {0, 1, 2}})
    ->UseManualTime();

/// Arguments as those of attention. dK and dV are fp32.
void attention_gradient(benchmark::State& state) {
  const auto tokens = static_cast<std::int32_t>(state.range(0));
  const auto heads = static_cast<std::int32_t>(state.range(1));
  const auto kv_heads = static_cast<std::int32_t>(state.range(2));
  const auto head_dim = static_cast<std::int32_t>(state.range(3));
  const DType dtype = dtype_of(state, 5);
  TensorSet set;
  AttentionGradient op{.dq = filled(set, tokens, heads * head_dim, dtype),
                       .dk = filled(set, tokens, kv_heads * head_dim, DType::f32),
                       .dv = filled(set, tokens, kv_heads * head_dim, DType::f32),
                       .d_o = filled(set, tokens, heads * head_dim, dtype),
                       .q = filled(set, tokens, heads * head_dim, dtype),
                       .k = filled(set, tokens, kv_heads * head_dim, dtype),
                       .v = filled(set, tokens, kv_heads * head_dim, dtype),
                       .heads = heads,
                       .kv_heads = kv_heads,
                       .head_dim = head_dim,
                       .mask = static_cast<Mask>(state.range(4))};
  for (View* rows : {&op.dq, &op.d_o, &op.q}) rows->row = rows->rows = tokens / 4;
  HostKernels kernels;
  time_beside_sgemm(state, kernels, op, set.storage());
}
BENCHMARK(attention_gradient)
    ->ArgNames({"tokens", "heads", "kv_heads", "head_dim", "causal", "dtype"})
    ->ArgsProduct({{1024, 4096}, {4}, {1, 4}, {128}, {0, 1}, {0, 2}})
    ->UseManualTime();

void time_bytes(benchmark::State& state, const Compute& op, const Storage& storage) {
  HostKernels kernels;
  kernels.prepare(op, storage);
  for (auto _ : state) kernels.run(op, storage);
  std::vector<Tensor> tensors;
  for (TensorId id = 0; id < storage.size(); ++id) tensors.push_back(storage.tensor(id));
  state.SetBytesProcessed(state.iterations() * bytes(op, tensors));
}

/// Arguments: activation, dtype. 256 tokens, 4096 features.
void elementwise(benchmark::State& state) {
  const auto kind = static_cast<Activation>(state.range(0));
  const DType dtype = dtype_of(state, 1);
  TensorSet set;
  const View y = filled(set, 256, 4096, dtype);
  const View x = filled(set, 256, kind == Activation::swiglu ? 8192 : 4096, dtype);
  time_bytes(state, Elementwise{.y = y, .x = x, .kind = kind}, set.storage());
}
BENCHMARK(elementwise)->ArgNames({"kind", "dtype"})->ArgsProduct({{0, 1, 2}, {0, 1, 2}});

/// Arguments: terms beside A, dtype.
void accumulate(benchmark::State& state) {
  const auto count = static_cast<std::int32_t>(state.range(0));
  const DType dtype = dtype_of(state, 1);
  TensorSet set;
  const View a = filled(set, 256, 4096, dtype);
  View terms = filled(set, 256 * count, 4096, dtype);
  terms.rows = 256;
  terms.strips = count;
  terms.row_step = 256;
  time_bytes(state, Accumulate{.d = a, .a = a, .terms = terms}, set.storage());
}
BENCHMARK(accumulate)->ArgNames({"terms", "dtype"})->ArgsProduct({{1, 3, 7}, {0, 1, 2}});

/// Argument: dtype of the gradient and the copy.
void adam(benchmark::State& state) {
  const DType dtype = dtype_of(state, 0);
  TensorSet set;
  const auto wide = [&] { return filled(set, 256, 4096, DType::f32); };
  const Adam op{.new_w = wide(),
                .new_m = wide(),
                .new_v = wide(),
                .w = wide(),
                .m = wide(),
                .v = wide(),
                .g = filled(set, 256, 4096, dtype),
                .copy = filled(set, 256, 4096, dtype)};
  time_bytes(state, op, set.storage());
}
BENCHMARK(adam)->ArgName("dtype")->Arg(0)->Arg(1)->Arg(2);

/// Arguments: columns of the 4096 that are copied.
void copy(benchmark::State& state) {
  TensorSet set;
  View d = filled(set, 256, 4096, DType::f32);
  View s = filled(set, 256, 4096, DType::f32);
  d.cols = s.cols = static_cast<std::int32_t>(state.range(0));
  time_bytes(state, Copy{.d = d, .s = s}, set.storage());
}
BENCHMARK(copy)->ArgName("cols")->Arg(128)->Arg(2048)->Arg(4096);

void peak(benchmark::State& state) {
  double best = 0;
  for (auto _ : state) best = measure_gemm_peak();
  state.counters["flop/s"] = best;
}
BENCHMARK(peak)->Iterations(1);

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("blas", commfuse::describe_blas());
  benchmark::RunSpecifiedBenchmarks();
}
