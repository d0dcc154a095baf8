"""The laws that every primitive obeys, each a function of a `Case` that raises an AssertionError naming what is wrong.

That a compiled program computes what NumPy does is the law `value`, and `commute` holds it for derivatives and batches
too, in one program. The other laws compute in NumPy; see `case.run`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.batch_laws import commute, vmap_law
from tests.ops.case import Case
from tests.ops.derivative_laws import jvp_law, linearize_law, order2, transpose, vjp_law, zeros
from tests.ops.table import Row, Sample
from tests.ops.value_laws import compile_together, converted, eager, typing, value, value_dtypes

LAWS: dict[str, Callable[[Case], None]] = {
    "value": value, "typing": typing, "eager": eager, "jvp": jvp_law, "zeros": zeros, "linearize": linearize_law,
    "vjp": vjp_law, "order2": order2, "transpose": transpose, "vmap": vmap_law, "commute": commute,
}  # fmt: skip
OF_DERIVATIVES = frozenset({"jvp", "zeros", "linearize", "vjp", "order2", "transpose"})


def applies(law: str, row: Row, sample: Sample) -> bool:
    """Whether the law says anything of the sample."""
    if law not in OF_DERIVATIVES:
        return True
    if sample.edges or not Case(row, sample).active:
        return False
    return row.differentiable or law == "zeros"


Cases = dict[tuple[int, np.dtype | None], Case]

_latest: list[tuple[Row, Cases]] = []


def cases_of(row: Row) -> Cases:
    """The cases of a row, by the sample's `id` and the leading dtype: the same ones for all laws tried in a row."""
    if not _latest or _latest[0][0] is not row:
        cases: Cases = {}
        for sample in row.samples:
            case = cases[id(sample), None] = Case(row, sample)
            cases |= {(id(sample), dtype): converted(case, dtype) for dtype in value_dtypes(case)}
        _latest[:] = [(row, cases)]
    return _latest[0][1]


def check(law: str, row: Row, sample: Sample) -> None:
    """Tries one law on one sample, on every dtype where the law is `value`."""
    cases = cases_of(row)
    case = cases[id(sample), None]
    if law != "value":
        LAWS[law](case)
        return
    compile_together(case for case in cases.values() if case.has_reference)
    for dtype in value_dtypes(case):
        try:
            value(cases[id(sample), dtype])
        except AssertionError as error:
            error.add_note(f"  in {dtype.name}")
            raise
