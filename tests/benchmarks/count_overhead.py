#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions that the harness spends on each operation of a plan, counted by callgrind.

    count_overhead.py PROGRAM                  the report that scripts/measure_overhead.sh prints
    count_overhead.py PROGRAM --at-most N      fails if the executor spends more than N per operation (a ctest)

PROGRAM is overhead_program. It runs with R and with 2R rounds; the difference holds no start-up. Left out of the count is
what is not the harness: BLAS and MPI, the copying of blocks (memcpy), and waiting for another thread. Counts hardly depend
on the machine, and not on its load. Exits 77 ("skipped") without valgrind.
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROUNDS = 10
# As short as the gemms of a sweep get: a half (m = 2) of a peer slice of 128 tokens on 2 ranks, down-projection of
# Llama-3.1-8B (hidden 4096, ffn 14336). scripts/demo.sh starts at four times as many tokens.
SHORTEST_GEMM = (32, 4096, 7168)

# Callgrind stops counting inside these: BLAS with all that it calls, and waiting with its system calls and clock.
NOT_COUNTED_INSIDE = ("cblas_sgemm", "commfuse::Doorbell::wait_past(*", "commfuse::sleep_until(*")
# And these are taken out by name: they call one of the above, or are called from everywhere.
LIBRARIES = re.compile(r"^(libopenblas|libmpi|libopen-|libpmix|libgfortran|ld-linux)")
FUNCTIONS = re.compile(r"mem(cpy|move|set)|SenseBarrier::|^syscall$|^sched_yield$|futex")


def parse_profile(text):
    """Instructions by (object, function), exclusive of callees, from a callgrind.out file."""
    names = {}
    costs = collections.Counter()
    position = {"ob": "", "fn": ""}
    skip = False
    for line in text.splitlines():
        match = re.match(r"^(c?)(ob|fn)=\((\d+)\)(?: (.*))?$", line)
        if match:
            called, kind, number, name = match.groups()
            if name is not None:
                names[kind, number] = name
            if not called:
                position[kind] = names[kind, number]
        elif line.startswith("calls="):
            skip = True  # the next line is the callee's inclusive cost
        elif re.match(r"^[+\-*\d]", line):
            if not skip:
                fields = line.split()
                costs[position["ob"], position["fn"]] += int(fields[1]) if len(fields) > 1 else 0
            skip = False
    return costs


def run_under_callgrind(program, *arguments, not_counted=()):
    """Returns (profile, standard output)."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}",
                   *(f"--toggle-collect={function}" for function in not_counted), "--collect-atstart=yes", program, *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if result.returncode != 0:
            sys.exit(f"count_overhead: {' '.join(command)} failed with {result.returncode}\n{result.stdout}{result.stderr}")
        return parse_profile(profile.read_text()), result.stdout


def is_harness(owner):
    library, function = os.path.basename(owner[0]), owner[1]
    return not LIBRARIES.match(library) and not FUNCTIONS.search(function)


def count_per_op(program, kind):
    """Returns (instructions of the harness per operation, {(object, function): instructions per operation})."""
    short, output = run_under_callgrind(program, kind, ROUNDS, not_counted=NOT_COUNTED_INSIDE)
    long, _ = run_under_callgrind(program, kind, 2 * ROUNDS, not_counted=NOT_COUNTED_INSIDE)
    ops = int(re.search(r"^ops (\d+)$", output, re.MULTILINE).group(1)) * ROUNDS
    spent = {owner: (long[owner] - short[owner]) / ops for owner in long if is_harness(owner)}
    return sum(spent.values()), spent


def report(program):
    by_plan, spent = count_per_op(program, "plan")
    by_hand, _ = count_per_op(program, "hand")
    profile, _ = run_under_callgrind(program, "gemm", *SHORTEST_GEMM)
    gemm = sum(cost for (library, _), cost in profile.items() if LIBRARIES.match(os.path.basename(library)))
    print("Instructions per plan operation, outside BLAS, MPI, block copies and waiting (tpsp/gemm_rs, ring, m = 2, 4 ranks):")
    print(f"  host executor, transport paced     {by_plan:12,.0f}")
    print(f"  the same written by hand           {by_hand:12,.0f}")
    print(f"  the shortest gemm of a sweep, {'x'.join(map(str, SHORTEST_GEMM))}  {gemm:12,.0f}   ({by_plan / gemm:.4%} of it is the executor's)")
    print("Where the executor's go:")
    for (library, function), cost in sorted(spent.items(), key=lambda item: -item[1])[:12]:
        print(f"  {cost:9.1f}  {function[:100]}  [{os.path.basename(library)}]")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--at-most", type=int, metavar="N")
    arguments = parser.parse_args()
    if not shutil.which("valgrind"):
        print("count_overhead: skipped, there is no valgrind here")
        return 77
    if arguments.at_most is None:
        report(arguments.program)
        return 0
    by_plan, _ = count_per_op(arguments.program, "plan")
    print(f"count_overhead: {by_plan:.0f} instructions per plan operation, at most {arguments.at_most}")
    return 0 if 0 < by_plan <= arguments.at_most else 1


if __name__ == "__main__":
    sys.exit(main())
