#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cuda_cli_test.sh BENCH NAME: runs test_NAME. What --backend cuda says where something is missing; no GPU.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

# The program in a folder of its own, without its plugin.
mkdir "$WORK/alone"
cp "$BENCH" "$WORK/alone/commfuse-bench"
ALONE=$WORK/alone/commfuse-bench

# cuda_refuses TEXT COMMAND...: exit code 5, nothing on standard output, one line with the text on standard error.
cuda_refuses() {
  local text=$1
  shift
  run 5 "$@"
  out_empty
  err_lines 1
  err_has "$text"
}

test_no_plugin() {
  cuda_refuses "alone/commfuse_cuda.so" "$ALONE" "${SMALL[@]}" --backend cuda --threads 2 --check-only
  err_has "there is no "
  cuda_refuses "alone/commfuse_cuda.so" "$ALONE" --backend cuda --threads 2 --selftest
  run 0 "$ALONE" "${SMALL[@]}" --threads 1 --check-only
}

test_broken_plugin() {
  echo "not a library" >"$WORK/alone/commfuse_cuda.so"
  cuda_refuses "--backend cuda on $(hostname)" "$ALONE" "${SMALL[@]}" --backend cuda --threads 2 --check-only
  err_has "commfuse_cuda.so"
}

# Nothing of a plugin from another build is called.
test_other_plugin() {
  local source
  for source in 'unsigned commfuse_plugin_abi = 1; int commfuse_create_backend(void) { __builtin_trap(); }' \
    'int commfuse_create_backend(void) { __builtin_trap(); }'; do
    echo "$source" | "${CC:-cc}" -x c -shared -fPIC -o "$WORK/alone/commfuse_cuda.so" - || exit 77
    cuda_refuses "commfuse_cuda.so belongs to another build of this program" \
      "$ALONE" "${SMALL[@]}" --backend cuda --threads 2 --check-only
  done
}

# Errors of libraries keep their exit codes, whether ranks are threads or processes.
test_failing_plugin() {
  cp "$FAILING_PLUGIN" "$WORK/alone/commfuse_cuda.so"
  local code
  for code in 2 3; do
    run $code env FAIL=$code "$ALONE" "${SMALL[@]}" --backend cuda --threads 2 --check-only
    out_empty
    err_has "it failed"
    run $code env FAIL=$code "$ALONE" "${SMALL[@]}" --backend cuda --check-only
    err_has "it failed"
  done
}

# What only prints needs neither plugin nor device.
test_prints_without_device() {
  local program
  for program in "$BENCH" "$ALONE"; do
    run 0 "$program" --version
    out_has "commfuse-bench "
    run 0 "$program" --list --backend cuda
    out_has "tpsp/mlp"
    run 0 "$program" "${SMALL[@]}" --backend cuda --threads 2 --dry-run
    out_has "/backend:cuda/transport:ce/settings:ctas=2"
    err_empty
    run 0 "$program" "${SMALL[@]}" --backend cuda --threads 2 --list=json
    out_has '"benchmarks"'
    err_empty
    run 0 "$program" "${SMALL[@]}" --backend cuda --threads 2 --impl commfuse --explain
    out_has "rank 1 of 2"
    err_empty
    run 0 "$program" --backend cuda --threads 2 --selftest --dry-run
    out_has "commfuse:order=direct:m=3:accumulate=once"
    err_empty
  done
}

# The plugin is there and says what the machine lacks; beside it, the host backend runs as ever.
test_no_driver() {
  [[ ! -e /proc/driver/nvidia/version && ! -e /dev/nvidiactl ]] || exit 77
  cuda_refuses "there is no NVIDIA driver" "$BENCH" "${SMALL[@]}" --backend cuda --threads 2 --check-only
  cuda_refuses "there is no NVIDIA driver" "$BENCH" --backend cuda --threads 2 --transport ce --selftest
  cuda_refuses "there is no NVIDIA driver" "$BENCH" --backend cuda --threads 1 --out "$WORK/r.jsonl"
  [[ ! -e $WORK/r.jsonl ]] || fail "an empty file of records was left behind"
  # What the user got wrong is said before what the machine lacks.
  local queues
  for queues in abc 0 64; do
    run 6 env "CUDA_DEVICE_MAX_CONNECTIONS=$queues" "$BENCH" "${SMALL[@]}" --backend cuda --threads 2 --check-only
    err_lines 1
    err_has "CUDA_DEVICE_MAX_CONNECTIONS is '$queues'; it must be 1 to 32"
  done
  run 0 "$BENCH" "${SMALL[@]}" --threads 1 --check-only
}

"test_$2"
