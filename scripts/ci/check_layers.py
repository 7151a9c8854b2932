#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the order of the house: who may include whom, names, licence lines, tables in step with files.

    scripts/ci/check_layers.py [ROOT]      prints one line per finding and exits 1 if there is any

Direction: suite <- impls <- harness, and harness/record <- reports. Standard library only.
"""

import pathlib
import re
import sys
from typing import Callable, Iterator, NamedTuple

ROOMS = ("suite", "impls", "harness", "reports", "tests", "scripts")
CODE = {".h", ".cpp", ".cu", ".cuh"}
WITH_LICENCE_LINE = CODE | {".py", ".sh", ".cmake", ".toml"}
FORBIDDEN_NAMES = {"common", "util", "utils", "misc", "helper", "helpers"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


class Room(NamedTuple):
    """What the files under `path` may include: paths of this project, and libraries; None means any library."""

    path: str
    project: tuple[str, ...]
    libraries: tuple[str, ...] | None


POSIX_FILES = ("fcntl.h", "unistd.h", "sys/file.h", "sys/stat.h")  # records are appended and locked by file descriptor

# The first room whose path a file lies under decides.
LAYERS = (
    Room("suite/", ("suite/",), ("fmt/", "toml++/")),
    Room("impls/", ("suite/", "impls/"), ("fmt/",)),
    Room("harness/record/", ("harness/record/",), ("fmt/", "nlohmann/", *POSIX_FILES)),
    Room("harness/", ("suite/", "impls/", "harness/"), None),
    Room("reports/", ("harness/record/", "reports/"), None),
)

# Library headers that only some places may name: (what, pattern of the header, pattern of the file).
GUARDED = (
    ("MPI", re.compile(r"^mpi\.h$"), re.compile(r"^harness/(world|host)/mpi_|^tests/.*mpi_")),
    ("CUDA", re.compile(r"^(cuda|cublas|cupti|nccl|nvtx|nvToolsExt|nvml)"), re.compile(r"^harness/cuda/|^tests/fakecuda/")),
    ("SimGrid", re.compile(r"^simgrid/"), re.compile(r"^harness/sim/simgrid_")),
)

# suite and impls neither see a clock nor print: (what, pattern in code without comments and strings).
CLOCK_OR_OUTPUT = (
    ("a clock", re.compile(r"#\s*include\s*<(chrono|ctime)>|\bclock_gettime\b|\bstd::chrono\b|\b__rdtsc\b")),
    ("output", re.compile(r"#\s*include\s*<(iostream|fstream|cstdio|print)>|\b(fmt|std)::print(ln)?\b|\bf?printf\s*\(")),
)


def files_below(root: pathlib.Path) -> Iterator[pathlib.PurePosixPath]:
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and "node_modules" not in path.parts:
                yield pathlib.PurePosixPath(path.relative_to(root).as_posix())


def is_standard(header: str) -> bool:
    return "." not in header and "/" not in header


def check_includes(name: str, text: str) -> Iterator[str]:
    room = next((r for r in LAYERS if name.startswith(r.path)), None)
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        own, library = match.groups()
        header = own or library
        where = f"{name}:{number}: "
        if own and not own.startswith(tuple(r + "/" for r in ROOMS)):
            yield where + f'"{own}" is not a path from the root of the project'
        elif room and own and not own.startswith(room.project):
            yield where + f'{room.path} includes "{own}"; it may include {", ".join(room.project)}'
        if room and library and room.libraries is not None:
            if not is_standard(library) and not library.startswith(room.libraries):
                yield where + f"{room.path} includes <{library}>; it may include std, {', '.join(room.libraries)}"
        for what, guarded, allowed in GUARDED:
            if guarded.match(header) and not allowed.match(name):
                yield where + f"{what} header <{header}> outside {allowed.pattern}"


def check_clock_and_output(name: str, text: str) -> Iterator[str]:
    if not name.startswith(("suite/", "impls/")):
        return
    code = COMMENT_OR_STRING.sub(lambda m: "\n" * m.group().count("\n"), text)
    for what, pattern in CLOCK_OR_OUTPUT:
        for match in pattern.finditer(code):
            number = code.count("\n", 0, match.start()) + 1
            yield f"{name}:{number}: suite and impls have no {what}: {match.group().strip()}"


def check_names(files: list[pathlib.PurePosixPath]) -> Iterator[str]:
    seen: dict[str, pathlib.PurePosixPath] = {}
    for path in files:
        for part in (*path.parent.parts, path.stem):
            if part.lower() in FORBIDDEN_NAMES:
                yield f"{path}: '{part}' says nothing about what is inside; name the idea"
        if path.suffix not in CODE | {".py", ".sh"}:
            continue
        other = seen.setdefault(path.stem, path)
        pair = other.parent == path.parent and {other.suffix, path.suffix} <= CODE
        if other != path and not pair:
            yield f"{path}: shares its base name with {other}"


def check_licence_line(name: str, text: str) -> Iterator[str]:
    path = pathlib.PurePosixPath(name)
    if path.suffix in WITH_LICENCE_LINE or path.name == "CMakeLists.txt":
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text.splitlines()[:3]):
            yield f"{name}:1: no line 'SPDX-License-Identifier: Apache-2.0'"


def check_source_lists(root: pathlib.Path, files: list[pathlib.PurePosixPath]) -> Iterator[str]:
    """Every source is named by the CMakeLists.txt of its folder or of one above it."""
    for path in files:
        if path.suffix not in {".cpp", ".cu"}:
            continue
        for folder in path.parents:
            lists = root / folder / "CMakeLists.txt"
            if lists.is_file() and re.search(rf"(?<![\w/.-]){re.escape(str(path.relative_to(folder)))}(?![\w.-])", lists.read_text()):
                break
        else:
            yield f"{path}: no CMakeLists.txt names it"


def check_table(root: pathlib.Path, table: str, folder: str, builder: str, name_of_builder: Callable[[str], str]) -> Iterator[str]:
    """Every line {"name", ...} of the table has its function name_of_builder(name) in a source of the folder, and every
    function that looks like one (the pattern `builder`) has its line. A name's second line is of its backward pass."""
    if not (root / table).is_file():
        return
    listed: dict[str, str] = {}
    for name in re.findall(r'\{\s*"([a-z0-9_/]+)"\s*,', (root / table).read_text()):
        builder_name = name_of_builder(name)
        listed[builder_name + "_backward" if builder_name in listed else builder_name] = name
    defined: dict[str, str] = {}
    for path in sorted((root / folder).glob("*.cpp")):
        if path != root / table:
            for name in re.findall(builder, path.read_text(), re.MULTILINE):
                defined[name] = f"{folder}/{path.name}"
    for function in sorted(defined.keys() - listed.keys()):
        yield f"{defined[function]}: {function} has no line in the table of {table}"
    for function in sorted(listed.keys() - defined.keys()):
        yield f"{table}: the table lists {listed[function]}, but no source of {folder} defines {function}"


def check(root: pathlib.Path) -> list[str]:
    files = list(files_below(root))
    findings: list[str] = []
    for path in files:
        name = str(path)
        if path.suffix not in WITH_LICENCE_LINE and path.name != "CMakeLists.txt":
            continue
        text = (root / path).read_text(encoding="utf-8")
        findings += check_licence_line(name, text)
        if path.suffix in CODE:
            findings += check_includes(name, text)
            findings += check_clock_and_output(name, text)
    findings += check_names(files)
    findings += check_source_lists(root, files)
    findings += check_table(root, "suite/workload.cpp", "suite/workloads", r"^Workload ([a-z0-9]+_[a-z0-9_]+)\(",
                            lambda name: name.replace("/", "_"))
    findings += check_table(root, "impls/implementation.cpp", "impls", r"^Implementation (make_[a-z0-9_]+)\(",
                            lambda name: "make_" + name)
    return findings


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    if not (root / "suite").is_dir():
        print(f"check_layers: {root} has no folder suite", file=sys.stderr)
        return 6
    findings = check(root)
    for finding in findings:
        print(finding)
    print(f"check_layers: {len(findings)} findings" if findings else "check_layers: layers, names and tables are in order")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
