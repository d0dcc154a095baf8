"""The laws that every primitive obeys, each a function of a `Case` that raises an AssertionError naming what is wrong.

That a compiled program computes what NumPy does is the law `value`, and `commute` holds it for derivatives and batches
too, in one program. The other laws compute in NumPy; see `case.run`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.ops.batch_laws import commute, vmap_law
from tests.ops.case import Case
from tests.ops.derivative_laws import jvp_law, linearize_law, order2, transpose, vjp_law, zeros
from tests.ops.table import Row, Sample
from tests.ops.value_laws import converted, eager, typing, value, value_dtypes

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


_latest: list[Case] = []


def latest_case(row: Row, sample: Sample) -> Case:
    """The case of a sample, the same one for all laws that are tried in a row."""
    if not _latest or _latest[0].row is not row or _latest[0].sample is not sample:
        _latest[:] = [Case(row, sample)]
    return _latest[0]


def check(law: str, row: Row, sample: Sample) -> None:
    """Tries one law on one sample, on every dtype where the law is `value`."""
    case = latest_case(row, sample)
    if law != "value":
        LAWS[law](case)
        return
    for dtype in value_dtypes(row, sample):
        try:
            value(converted(case, dtype))
        except AssertionError as error:
            error.add_note(f"  in {dtype.name}")
            raise
