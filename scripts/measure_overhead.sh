#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the harness costs: instructions per plan operation outside BLAS and MPI, beside the same gemms and messages written
# by hand, and beside the shortest gemm of a sweep. Counted by callgrind; takes a minute or two.
#
#   scripts/measure_overhead.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

setup build test
build_preset dev overhead_program
/usr/bin/python3 -B tests/benchmarks/count_overhead.py build/dev/tests/benchmarks/overhead_program
