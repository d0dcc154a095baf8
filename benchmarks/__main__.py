"""`python -m benchmarks [GROUP ...]`: a table of figures on xpr and on jax, and their ratios beside the targets."""

import argparse
import sys
from pathlib import Path

from benchmarks import (
    cpu,
    deep,
    dispatch,
    eager,
    first_start,
    interpreters,
    libraries,
    linear_algebra,
    loops,
    memory,
    models,
    numpy_ops,
    passes,
    programs,
    saved_arrays,
    several_devices,
    staging,
    startup,
)
from benchmarks.measure import load_libraries, measure
from benchmarks.table import header, line, summary, write_json

GROUPS = {
    "staging": staging.CASES,
    "eager": eager.CASES,
    "dispatch": dispatch.CASES,
    "startup": startup.CASES,
    "first_start": first_start.CASES,
    "loops": loops.CASES,
    "passes": passes.CASES,
    "models": models.CASES,
    "deep": deep.CASES,
    "interpreters": interpreters.CASES,
    "libraries": libraries.CASES,
    "linear_algebra": linear_algebra.CASES,
    "memory": memory.CASES,
    "cpu": cpu.CASES,
    "numpy_ops": numpy_ops.CASES,
    "programs": programs.CASES,
    "several_devices": several_devices.CASES,
    "saved_arrays": saved_arrays.CASES,
}


def main() -> int:
    options = parse()
    libraries = load_libraries()
    if "jax" not in libraries:
        print("jax is not installed: xpr's figures alone. (pip install jax==0.10.2 for both)")

    rows = []
    for group in options.groups or GROUPS:
        print(f"\n{header(group)}")
        for case in GROUPS[group]:
            if options.only in case.name:
                rows.append(measure(group, case, libraries, options.budget))
                print(line(rows[-1]), flush=True)

    print(f"\n{summary(rows)}")
    if options.json:
        write_json(rows, list(libraries.values()), options.json)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Times xpr beside jax in one process.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (default: all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this text in their name")
    parser.add_argument("--budget", type=float, default=2, metavar="SECONDS", help="for each case (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to a file as well")
    options = parser.parse_args()
    if unknown := set(options.groups) - GROUPS.keys():
        parser.error(f"no group {', '.join(sorted(unknown))}; the groups are {', '.join(GROUPS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
