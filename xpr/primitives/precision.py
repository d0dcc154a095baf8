"""Precision and dtype of the products and sums of contractions and convolutions."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.config import settings
from xpr.core.avals import ShapedArray
from xpr.errors import TypePromotionError
from xpr.text.parameters import register_parameter

__all__ = ["AccuracyMode", "Precision", "PrecisionLike", "Tolerance"]

# -- Precision


@register_parameter
class Precision(Enum):
    """How exactly accelerators multiply float32: in one bfloat16 or tensorfloat32 pass, in several, or in float32.

    CPUs always multiply in the dtype of the operands.

    >>> from xpr import lax
    >>> lax.Precision("float32")
    Precision.HIGHEST
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _PRECISIONS.get(value)

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


_PRECISIONS: dict[object, Precision] = {
    None: Precision.DEFAULT, "default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
}  # fmt: skip

PrecisionLike = Precision | str | tuple[Precision | str, Precision | str] | None


def canonical_precision(precision: Any) -> tuple[Precision, Precision] | None:
    """A precision for each operand, or None where none was asked for, nor by the setting `default_matmul_precision`.

    Raises:
      ValueError: there is no such precision.
    """
    if precision is None:
        precision = settings.default_matmul_precision
        if precision is None:
            return None
    pair = precision if isinstance(precision, (tuple, list)) else (precision, precision)
    try:
        lhs, rhs = map(Precision, pair)
    except ValueError:
        raise ValueError(
            f"precision is None, one of {', '.join(repr(k) for k in _PRECISIONS if k)}, a lax.Precision, or a pair of "
            f"these for the two operands; it was {precision!r}."
        ) from None
    return lhs, rhs


def precision_text(precision: tuple[Precision, Precision] | None) -> str:
    """`precision_config = [...]`, the attribute of StableHLO's contractions and convolutions."""
    names = [p.name for p in precision or (Precision.DEFAULT, Precision.DEFAULT)]
    return f"precision_config = [{', '.join(f'#stablehlo<precision {name}>' for name in names)}]"


# -- Dtypes


def result_dtype(lhs: ShapedArray, rhs: ShapedArray, preferred: np.dtype | None) -> np.dtype:
    """The dtype of a product: the preferred one, else what the operands promote to."""
    if preferred is not None:
        return preferred
    if lhs.dtype == rhs.dtype:
        return lhs.dtype
    return dtypes.promote_pair(lhs.dtype, lhs.weak_type, rhs.dtype, rhs.weak_type)[0]


def common_dtype(lhs: ShapedArray, rhs: ShapedArray, out: np.dtype) -> np.dtype:
    """The dtype to which the operands of a product promote; the result's for floats of few bits, which do not."""
    try:
        return result_dtype(lhs, rhs, None)
    except TypePromotionError:
        return out


def _kind(dtype: np.dtype) -> int:
    """0 to 3 for booleans, integers, floats, complex numbers."""
    kinds = (dtypes.BOOL, dtypes.INTEGERS, dtypes.FLOATS, dtypes.COMPLEX)
    return next(i for i, kind in enumerate(kinds) if dtype in kind)


def wider(a: np.dtype, b: np.dtype) -> bool:
    """Whether b adds nothing to a: it is of a lower kind, or of the same and no longer."""
    return (_kind(a), a.itemsize) >= (_kind(b), b.itemsize)


def in_one_dtype(b: Builder, operands: list[Value], out: np.dtype) -> list[Value]:
    """The operands in one dtype, the result's where that is of a higher kind."""
    common = common_dtype(operands[0].aval, operands[1].aval, out)
    dtype = out if _kind(out) > _kind(common) else common
    return [b.convert(x, dtype) for x in operands]


def summed_in(operands: np.dtype, out: ShapedArray) -> ShapedArray:
    """The type in which products are summed: the result's, but not shorter than the operands'."""
    return out.update(dtype=operands) if wider(operands, out.dtype) else out


# -- Accuracy of elementwise functions


class AccuracyMode(Enum):
    """Which method computes an elementwise function on TPUs: the most accurate one, or the usual one."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """How far an elementwise function may be off, from which XLA chooses a method on TPUs.

    >>> from xpr import lax
    >>> lax.exp(1.0, accuracy=lax.Tolerance(rtol=1e-6))
    Array(2.7182817, dtype=float32, weak_type=True)
    """

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0):
        """A tolerance.

        Args:
          atol: the absolute error.
          rtol: the error relative to the result.
          ulps: the error in units of the result's last digit.

        Raises:
          ValueError: one is negative, or none is given.
        """
        if min(atol, rtol, ulps) < 0 or not max(atol, rtol, ulps):
            raise ValueError(f"Tolerance: atol={atol}, rtol={rtol} and ulps={ulps} must be positive, or 0 and not all.")
        self.atol, self.rtol, self.ulps = atol, rtol, ulps

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"
