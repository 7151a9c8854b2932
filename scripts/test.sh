#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that must be green: the repository's own checks, all tests, and the tests under the address and
# undefined-behaviour sanitizers.
#
#   scripts/test.sh              the tests, with one seed for the CUDA backend on fakes; under the sanitizers without that
#                                backend, and with fewer conformance seeds
#   scripts/test.sh --nightly    all seeds, everything under address, undefined-behaviour and thread sanitizer (there, one of the fakes)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

nightly=false
sanitized=asan
asan_selection=()
if [[ $# == 1 && $1 == --nightly ]]; then
  nightly=true
elif (($#)); then
  echo "usage: scripts/test.sh [--nightly]" >&2
  exit 6
fi

# The thread sanitizer of g++ 12 cannot place its memory where the kernel spreads addresses over more than 28 bits; 0x40000
# says that they are not spread for this process.
if $nightly && (((0x$(</proc/self/personality) & 0x40000) == 0)) && setarch -R true 2>/dev/null; then
  exec setarch -R "$BASH" scripts/test.sh --nightly
fi

announce() { echo; echo "test: $*"; }

# PRESET [ARGUMENT OF CTEST...]: builds it and runs its tests, as many at once as there are cores; ctest keeps apart those
# that need several cores or look at a clock.
build_and_test() {
  local preset=$1
  shift
  announce "preset $preset"
  build_preset "$preset"
  ctest --preset "$preset" --parallel "$(nproc)" "$@"
}

# PRESET: what its conformance tests said they covered, added up. If they said nothing, they did not run.
print_conformance() {
  awk '/^conformance: / {
      cases += $2
      for (i = 2; i < NF; ++i) {
        if ($i == "runs,") runs += $(i - 1)
        if ($i == "bit") exact += substr($(i - 1), 2)
        if ($i == "within") bounded += $(i - 1)
        if ($i == "cases" && $(i + 1) == "that") skipped += $(i - 1)
      }
      sub(/.* x ranks/, "x ranks"); sub(/ = .*/, ""); factors = $0
    }
    END {
      if (!runs) { print "test: no conformance test said what it covered" > "/dev/stderr"; exit 1 }
      printf "conformance: %d cases (implementations x workloads x shapes) %s = %d runs: %d equal bit for bit, %d within " \
        "the oracle'"'"'s bound; %d cases that do not divide skipped, as expected\n", cases, factors, runs, exact, bounded, skipped
    }' "build/$1/Testing/Temporary/LastTest.log"
}

setup build test

announce "layers, names, tables and format"
scripts/ci/check_layers.py
scripts/ci/check_format.sh || (($? == 77))

$nightly || export COMMFUSE_FAKECUDA_SEEDS=1  # of 20, which take most of an hour
build_and_test dev
print_conformance dev
export COMMFUSE_FAKECUDA_SEEDS=1
if $nightly; then
  build_and_test tsan
  print_conformance tsan
else
  # Fewer seeds, no CUDA backend, and not the longest runs of many instrumented processes on few cores.
  export COMMFUSE_CONFORMANCE_SEEDS=4
  sanitized=asan-host
  asan_selection=(--exclude-regex 'HostMpi.on_[57]|Cli.checks_at_odd_ranks|Cli.selftest_of_processes')
fi
build_and_test "$sanitized" "${asan_selection[@]}"  # last, so that the output ends with a summary of ctest
