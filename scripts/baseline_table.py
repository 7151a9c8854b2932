#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One table of the record files of several launches: which baseline is the best, and CommFuse against it.

    baseline_table.py FILE.jsonl...

The name of a file is what its launch had set. Cases are told apart by the names of their records without the implementation.
Exit code: 0, 5 no row has a time, 6 a file cannot be read, 7 a result is wrong.
"""

import json
import pathlib
import re
import sys

BOUNDS = ("compute_only", "comm_only")


class BadInput(Exception):
    """A file that is not what the program writes; the text names file and line."""


class Row:
    def __init__(self, launch, record):
        self.launch = launch
        self.impl = record["impl"]
        self.case = re.sub(r"/impl:[^/]*", "", record["id"])
        self.outcome = record["outcome"]
        self.reason = record["reason"].split("\n")[0]
        self.time_ns = record["metrics"]["time"]["value"] if self.outcome == "ok" and record["metrics"] else None

    @property
    def baseline(self):
        return self.impl.split(":")[0] == "plain"

    @property
    def commfuse(self):
        return self.impl.split(":")[0] == "commfuse"


def rows_of(path):
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            rows.append(Row(path.stem, json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{path}, line {number}: no record of commfuse-bench ({type(error).__name__}: {error})") from error
    if not rows:
        raise BadInput(f"{path}: there are no records in it")
    return rows


def fastest(rows):
    return min((row for row in rows if row.time_ns is not None), key=lambda row: row.time_ns, default=None)


def milliseconds(time_ns):
    return f"{time_ns / 1e6:.4f}"


def what_came_of(row, best):
    if row.time_ns is not None:
        return [milliseconds(row.time_ns), f"{row.time_ns / best.time_ns:.3f}", ""]
    return ["", "", f"{'WRONG' if row.outcome == 'wrong' else row.outcome}: {row.reason}"]


def aligned(table):
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        cells = [line[0].ljust(widths[0]), line[1].ljust(widths[1]), line[2].rjust(widths[2]), line[3].rjust(widths[3]), line[4]]
        yield "  ".join(cells).rstrip()


def conclusion(rows):
    baseline = fastest(row for row in rows if row.baseline)
    commfuse = fastest(row for row in rows if row.commfuse)
    if baseline is None:
        yield "best baseline: none has a time"
    else:
        yield f"best baseline: {baseline.impl} with {baseline.launch}, {milliseconds(baseline.time_ns)} ms"
    if commfuse is None:
        yield "CommFuse: no row has a time"
    else:
        against = f", {commfuse.time_ns / baseline.time_ns:.3f} of the best baseline's time" if baseline else ""
        yield f"CommFuse: {commfuse.impl} with {commfuse.launch}, {milliseconds(commfuse.time_ns)} ms{against}"


def spread(rows):
    """How far launches differ in what no setting of NCCL changes."""
    times = [row.time_ns for row in rows if row.impl == "compute_only" and row.time_ns is not None]
    if len(times) < 2:
        return
    share = 100 * (max(times) / min(times) - 1)
    yield f"compute_only differs by {share:.1f} % between launches: smaller differences between them mean nothing"


def text_of_case(case, rows):
    compared = [row for row in rows if row.impl not in BOUNDS]
    best = fastest(compared)
    table = [["row", "launch", "ms", "x best", ""]]
    timed = sorted((row for row in compared if row.time_ns is not None), key=lambda row: row.time_ns)
    for row in timed + [row for row in compared if row.time_ns is None]:
        table.append([row.impl, row.launch, *what_came_of(row, best)])
    return "\n".join([case, *aligned(table), *conclusion(rows), *spread(rows)])


def main(arguments):
    if not arguments or any(argument.startswith("-") for argument in arguments):
        print("usage: baseline_table.py FILE.jsonl...", file=sys.stderr)
        return 6
    try:
        rows = [row for argument in arguments for row in rows_of(pathlib.Path(argument))]
    except BadInput as error:
        print(f"baseline_table: {error}", file=sys.stderr)
        return 6
    cases = {}
    for row in rows:
        cases.setdefault(row.case, []).append(row)
    print("\n\n".join(text_of_case(case, of_case) for case, of_case in cases.items()))
    if any(row.outcome == "wrong" for row in rows):
        return 7
    return 0 if any(row.time_ns is not None for row in rows) else 5


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
