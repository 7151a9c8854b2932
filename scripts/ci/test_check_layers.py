#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Feeds check_layers a small tree in order, then the same tree with one thing out of order, and expects the finding."""

import pathlib
import tempfile
import unittest

import check_layers

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
IN_ORDER = {
    "suite/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nworkload.cpp workloads/tpsp.cpp\n",
    "suite/tensor.h": SPDX + "#include <vector>\n#include <fmt/format.h>\n// no std::chrono, no printf(\n",
    "suite/workload.cpp": SPDX + '#include "suite/tensor.h"\nEntry table[] = {{"tpsp/mlp", "whole MLP", nullptr}};\n',
    "suite/workloads/tpsp.cpp": SPDX + "Workload tpsp_mlp(const Shape& shape, std::int32_t ranks) {}\n",
    "impls/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nimplementation.cpp plain.cpp\n",
    "impls/plan.h": SPDX + '#include "suite/tensor.h"\n',
    "impls/implementation.cpp": SPDX + 'Entry table[] = {\n    {"plain", "nothing overlapped", "", make_plain},\n};\n',
    "impls/plain.cpp": SPDX + '#include "impls/plan.h"\nImplementation make_plain(const Parameters&) {}\n',
    "harness/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nworld/mpi_world.cpp record/record.cpp\n",
    "harness/record/record.h": SPDX + "#include <string>\n#include <nlohmann/json.hpp>\n",
    "harness/record/record.cpp": SPDX + '#include "harness/record/record.h"\n',
    "harness/world/mpi_world.cpp": SPDX + '#include <mpi.h>\n#include <unistd.h>\n#include "impls/plan.h"\n',
    "harness/cuda/stream.h": SPDX + "#include <cuda_runtime.h>\n#include <nccl.h>\n",
    "reports/history.h": SPDX + '#include "harness/record/record.h"\n#include <sqlite3.h>\n',
    "scripts/demo.sh": "#!/usr/bin/env bash\n# SPDX-License-Identifier: Apache-2.0\n",
}


class CheckLayers(unittest.TestCase):
    def findings(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**IN_ORDER, **changes}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_layers.check(root)

    def expect(self, changes, *parts):
        """Exactly one finding, with all of these parts in it."""
        findings = self.findings(changes)
        self.assertEqual(len(findings), 1, findings)
        for part in parts:
            self.assertIn(part, findings[0])

    def added(self, name, line):
        return {name: IN_ORDER[name] + line + "\n"}

    def test_tree_in_order_has_no_findings(self):
        self.assertEqual(self.findings({}), [])

    def test_includes_against_the_direction(self):
        for name, line in (
            ("suite/tensor.h", '#include "impls/plan.h"'),
            ("suite/tensor.h", '#include "harness/record/record.h"'),
            ("impls/plan.h", '#include "harness/record/record.h"'),
            ("impls/plan.h", '# include "reports/history.h"'),
            ("harness/world/mpi_world.cpp", '#include "reports/history.h"'),
            ("harness/record/record.h", '#include "suite/tensor.h"'),
            ("harness/record/record.h", '#include "harness/world/world.h"'),
            ("reports/history.h", '#include "harness/world/world.h"'),
            ("reports/history.h", '#include "suite/tensor.h"'),
        ):
            with self.subTest(name=name, line=line):
                last = IN_ORDER[name].count("\n") + 1
                self.expect(self.added(name, line), f"{name}:{last}: ", line.split('"')[1])

    def test_includes_not_from_the_root(self):
        self.expect(self.added("harness/cuda/stream.h", '#include "event.h"'), "not a path from the root")

    def test_libraries_where_they_do_not_belong(self):
        for name, line in (
            ("suite/tensor.h", "#include <nlohmann/json.hpp>"),
            ("suite/tensor.h", "#include <unistd.h>"),
            ("impls/plan.h", "#include <cblas.h>"),
            ("impls/plan.h", "#include <toml++/toml.h>"),
            ("harness/record/record.h", "#include <CLI/CLI.hpp>"),
            ("harness/world/mpi_world.cpp", "#include <cuda.h>"),
            ("harness/world/mpi_world.cpp", "#include <nccl.h>"),
            ("harness/cuda/stream.h", "#include <mpi.h>"),
        ):
            with self.subTest(name=name, line=line):
                self.expect(self.added(name, line), name, line.split("<")[1].rstrip(">"))

    def test_mpi_outside_its_files(self):
        self.expect({"harness/world/thread_world.h": SPDX + "#include <mpi.h>\n"}, "harness/world/thread_world.h:2", "MPI")

    def test_clocks_and_output_in_suite_and_impls(self):
        for line, what in (
            ("#include <chrono>", "clock"),
            ("#include <ctime>", "clock"),
            ("auto now() { return clock_gettime(0, nullptr); }", "clock"),
            ("#include <iostream>", "output"),
            ('void show() { std::printf("x"); }', "output"),
            ('void show() { fmt::print("x"); }', "output"),
        ):
            for name in ("suite/tensor.h", "impls/plain.cpp"):
                with self.subTest(name=name, line=line):
                    self.expect(self.added(name, line), f"{name}:{IN_ORDER[name].count(chr(10)) + 1}: ", what)

    def test_names_that_say_nothing(self):
        for name in ("suite/utils.h", "harness/common/clock.h", "impls/misc.h", "tests/helpers/clock.h"):
            with self.subTest(name=name):
                self.expect({name: SPDX}, name, "says nothing")

    def test_base_names_are_unique_but_for_header_and_source(self):
        self.expect({"harness/world/plan.h": SPDX}, "plan", "shares its base name")
        self.expect({"scripts/ci/tensor.py": "# SPDX-License-Identifier: Apache-2.0\n"}, "tensor", "shares its base name")

    def test_licence_line(self):
        for name in ("suite/tensor.h", "scripts/demo.sh", "suite/CMakeLists.txt"):
            with self.subTest(name=name):
                self.expect({name: IN_ORDER[name].replace("SPDX-License-Identifier: Apache-2.0", "")}, f"{name}:1", "SPDX")

    def test_source_that_no_cmake_file_names(self):
        self.expect({"harness/world/thread_world.cpp": SPDX}, "harness/world/thread_world.cpp", "no CMakeLists.txt")
        # A name that is only part of another one does not count.
        self.expect({"harness/record/ecord.cpp": SPDX}, "harness/record/ecord.cpp", "no CMakeLists.txt")

    def test_workload_table_and_files(self):
        self.expect(self.added("suite/workloads/tpsp.cpp", "Workload tpsp_attention(const Shape& shape) {}"), "tpsp_attention has no line")
        self.expect(self.added("suite/workload.cpp", 'Entry more[] = {{"ulysses", "", nullptr}};'), "ulysses", "no source")

    def test_implementation_table_and_files(self):
        self.expect(self.added("impls/plain.cpp", "Implementation make_sliced(const Parameters&) {}"), "make_sliced has no line")
        self.expect(self.added("impls/implementation.cpp", 'Entry more[] = {{"sliced", "", "", make_sliced}};'), "no source of impls")


if __name__ == "__main__":
    unittest.main()
