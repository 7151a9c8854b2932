#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the picture of the README: the plan of rank 0 of 3 for a small row-parallel linear under CommFuse. Needs Graphviz.
#
#   scripts/draw_plan.sh [BENCH]     default build/host/commfuse-bench; writes docs/pictures/commfuse-plan.svg
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bench=${1:-build/host/commfuse-bench}
command -v dot >/dev/null || { echo "draw_plan: dot is missing: install graphviz" >&2; exit 1; }
mkdir -p docs/pictures
"$bench" --threads 3 --workload tpsp/gemm_rs --shape hidden=8,ffn=12,heads=1 --tokens 12 --impl commfuse \
  --benchmark_filter=impl:commfuse --explain=dot | awk '/^digraph/ { ++plans } plans == 1' |
  dot -Nfontname=sans-serif -Gfontname=sans-serif -Efontname=sans-serif -Tsvg -o docs/pictures/commfuse-plan.svg
