"""The rows as a table, a line at a time, and as a JSON file."""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import jaxlib
import numpy

from benchmarks.case import Library
from benchmarks.measure import Row

NAME_WIDTH, CELL_WIDTH = 44, 9
COLUMNS = ("xpr", "jax", "numpy", "torch")


def header(group: str) -> str:
    cells = [*COLUMNS, "best/xpr", "jax/xpr", "target", "met"]
    return f"{group:{NAME_WIDTH}}" + "".join(f"{cell:>{CELL_WIDTH}}" for cell in cells)


def line(row: Row) -> str:
    cells = [amount(row.figures.get(column), row.unit) for column in COLUMNS]
    cells += [
        factor(row.beside_best),
        factor(row.ratio),
        factor(row.target),
        {True: "yes", False: "NO", None: ""}[row.met],
    ]
    return f"  {row.name:{NAME_WIDTH - 2}}" + "".join(f"{cell:>{CELL_WIDTH}}" for cell in cells)


def summary(rows: Sequence[Row]) -> str:
    judged = [row.met for row in rows if row.met is not None]
    return f"{sum(judged)} of {len(judged)} targets met" if judged else "no targets to compare with"


UNITS = {"s": (("s", 1), ("ms", 1e-3), ("us", 1e-6)), "B": (("MB", 1e6), ("kB", 1e3)), "x": (("x", 1),)}


def amount(figure: float | None, unit: str) -> str:
    """Three digits, in the multiple of the unit that fits."""
    if figure is None:
        return ""
    name, size = next((pair for pair in UNITS[unit] if figure >= pair[1]), UNITS[unit][-1])
    return f"{figure / size:.3g} {name}"


def factor(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def write_json(rows: Sequence[Row], libraries: Sequence[Library], path: Path) -> None:
    report = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": {library.__name__: library.__version__ for library in (*libraries, jaxlib, numpy)},
        "rows": [row.as_json() for row in rows],
    }
    path.write_text(json.dumps(report, indent=2) + "\n")
