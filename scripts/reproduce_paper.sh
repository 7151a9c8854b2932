#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The measured tables of the CommFuse paper (arXiv 2604.24013) beside what the event engine predicts from their first row.
# Modelled time; needs no GPU.
#
#   scripts/reproduce_paper.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

setup build test
build_preset host commfuse-sim
/usr/bin/python3 -B scripts/paper_table.py build/host/commfuse-sim
