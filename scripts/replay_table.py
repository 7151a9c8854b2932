#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of what measure_replay.sh has measured.

    replay_table.py agreement FILE.jsonl...   wall clock beside replay; exit code 1 where they are over 0.05 apart
    replay_table.py around IMPL FILE.jsonl    R of --link auto:R at 0.9 and 1.1 of the link up to which IMPL hides everything
    replay_table.py limits FILE.jsonl...      what was exposed on both sides of that link
"""

import json
import re
import statistics
import sys

TOLERANCE = 0.05  # of compute_only's time
RANKS = 8
BOUNDS = ("compute_only", "comm_only")


def schedules(paths):
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                if record["impl"] not in BOUNDS and record["outcome"] == "ok":
                    yield record


def metric(record, name):
    return record["metrics"][name]["value"]


def in_slices(record):
    """Compute in slices as a multiple of compute_only."""
    return 1 + metric(record, "decomposition") / metric(record, "t_whole")


def limit(impl):
    """Communication over compute in slices up to which a ring hides all of it; 0: it never does."""
    m = int(re.search(r"m=(\d+)", impl)[1])
    if "accumulate=add" in impl:
        return 1 - 1 / (RANKS * m)
    return 1 - 2 / (RANKS * m) if m > 1 else 0


def agreement(paths):
    shares = {}
    for record in schedules(paths):
        key = record["workload"], record["link"], record["impl"]
        shares.setdefault(key, {}).setdefault(record["clock"], []).append(metric(record, "exposed_share"))
    worst = 0
    print(f"{'workload':14} {'link':9} {'impl':46} {'wall':>6} {'replay':>6} {'apart':>6}")
    for (workload, link, impl), by_clock in sorted(shares.items()):
        wall, replay = (statistics.median(by_clock[clock]) for clock in ("wall", "replayed"))
        worst = max(worst, abs(wall - replay))
        far = "  over" if abs(wall - replay) > TOLERANCE else ""
        print(f"{workload:14} {link:9} {impl:46} {wall:6.3f} {replay:6.3f} {abs(wall - replay):6.3f}{far}")
    print(f"at most {worst:.3f} apart; {TOLERANCE} is allowed")
    return 1 if worst > TOLERANCE else 0


def around(impl, paths):
    record = next(record for record in schedules(paths) if record["impl"] == impl)
    print(*(f"{share * limit(impl) * in_slices(record):.4f}" for share in (0.9, 1.1)))
    return 0


def limits(paths):
    print(f"{'impl':46} {'limit':>6} {'comm/compute':>12} {'of limit':>8} {'exposed % of whole':>18}")
    for record in sorted(schedules(paths), key=lambda r: (r["impl"], r["link"])):
        impl = record["impl"]
        ratio = metric(record, "r_effective") / in_slices(record)
        known = limit(impl) if impl.startswith("commfuse") else 0
        of_limit = f"{ratio / known:8.2f}" if known else f"{'-':>8}"
        print(f"{impl:46} {known:6.3f} {ratio:12.3f} {of_limit} {100 * metric(record, 'exposed_share'):18.1f}")
    print("limit: of communication / compute in slices, 1 - 2/(P m) with epilogue, 1 - 1/(P m) with add; 0: nothing can be hidden")
    return 0


def main(arguments):
    match arguments:
        case ["agreement", *paths] if paths:
            return agreement(paths)
        case ["around", impl, *paths] if paths:
            return around(impl, paths)
        case ["limits", *paths] if paths:
            return limits(paths)
    print(__doc__.strip(), file=sys.stderr)
    return 6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
