#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that must be green: the repository's own checks, all tests, and the tests under the address and
# undefined-behaviour sanitizers.
#
#   scripts/test.sh              the tests; with the sanitizers all but those labelled exhaustive
#   scripts/test.sh --nightly    also: every test under address, undefined-behaviour and thread sanitizer; clang-tidy
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

nightly=false
case "${1:-}" in
  "") ;;
  --nightly) nightly=true ;;
  *)
    sed -n '/^#   scripts/s/^#   //p' scripts/test.sh >&2
    exit 6 ;;
esac

announce() { echo; echo "test: $*"; }

run_tests() {  # PRESET [arguments of ctest...]
  ctest --preset "$@"
}

# The conformance tests print how much they covered; no such line means that they did not run.
print_conformance() {  # PRESET
  announce "conformance in build/$1 (tests x ranks x seeds)"
  grep -h '^conformance:' "build/$1/Testing/Temporary/LastTest.log" || {
    echo "test: no conformance test reported what it covered" >&2
    return 1
  }
}

if $nightly; then setup build test nightly; else setup build test; fi

announce "layers, names, tables and format"
scripts/ci/check_layers.py
scripts/ci/check_format.sh || (($? == 77))

announce "preset dev: every test"
build_preset dev
run_tests dev
print_conformance dev

if $nightly; then
  announce "clang-tidy"
  scripts/ci/run_clang_tidy.sh build/dev
  announce "preset tsan: every test under the thread sanitizer"
  build_preset tsan
  run_tests tsan
  print_conformance tsan
  announce "preset asan: every test under the address and undefined-behaviour sanitizers"
  build_preset asan
  run_tests asan
else
  announce "preset asan: tests under the address and undefined-behaviour sanitizers, but for the exhaustive ones"
  build_preset asan
  run_tests asan --label-exclude exhaustive
fi
