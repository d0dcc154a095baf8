"""Algorithms of contractions: the dtypes that operands are rounded to, and in which products are summed.

JAX hands them to XLA, which refuses those that a platform has no routine for. Here they are conversions around the
contraction, and its `Precision`, so each runs everywhere, at least as exactly as it says.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.config import settings
from xpr.primitives.precision import Precision, canonical_precision
from xpr.text.parameters import register_parameter

__all__ = ["DotAlgorithm", "DotAlgorithmPreset"]

Pair = tuple[Precision, Precision]
_FLOAT8 = frozenset(dtype for dtype in dtypes.SMALL_FLOATS if dtype.name.startswith("float8"))


@register_parameter
class DotAlgorithm(NamedTuple):
    """An algorithm of contractions, given as their `precision`.

    The counts say into how many parts operands are split, and how many products are taken of these, to be more exact
    than their dtype; float32 takes their place.

    >>> import numpy as np
    >>> from xpr import lax, numpy as jnp
    >>> lax.dot(jnp.ones(3), jnp.ones(3), precision=lax.DotAlgorithm(np.float16, np.float16, np.float32))
    Array(3., dtype=float32)
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


@register_parameter
class DotAlgorithmPreset(Enum):
    """Algorithms of contractions by name, which says the dtypes of the operands and of their sums.

    X3, X6 and X9 are so many products of parts of float32. A name will do as a `precision`.

    >>> from xpr import lax, numpy as jnp
    >>> lax.dot(jnp.ones(3), jnp.ones(3), precision="BF16_BF16_F32")
    Array(3., dtype=float32)
    """

    DEFAULT = auto()
    ANY_F8_ANY_F8_F32 = auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = auto()
    ANY_F8_ANY_F8_ANY = auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = auto()
    F16_F16_F16 = auto()
    F16_F16_F32 = auto()
    BF16_BF16_BF16 = auto()
    BF16_BF16_F32 = auto()
    BF16_BF16_F32_X3 = auto()
    BF16_BF16_F32_X6 = auto()
    BF16_BF16_F32_X9 = auto()
    TF32_TF32_F32 = auto()
    TF32_TF32_F32_X3 = auto()
    F32_F32_F32 = auto()
    F64_F64_F64 = auto()

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def supported_lhs_types(self) -> tuple[np.dtype, ...] | None:
        """The dtypes that the left operand may have; others are converted to the first. None for any."""
        if self.name == "DEFAULT" or self.name.startswith("ANY"):
            return None
        if self.name in ("BF16_BF16_BF16", "BF16_BF16_F32"):
            return dtypes.bf16, dtypes.float32
        return (_NAMED.get(self.name.split("_")[0], dtypes.float32) if "_X" not in self.name else dtypes.float32,)

    @property
    def supported_rhs_types(self) -> tuple[np.dtype, ...] | None:
        """The dtypes that the right operand may have, likewise."""
        return self.supported_lhs_types

    @property
    def accumulation_type(self) -> np.dtype | None:
        """The dtype of sums; None for that of the result."""
        return None if self.name == "DEFAULT" else _NAMED.get(self.name.split("_")[2 if self.name[0] != "A" else 4])

    def supported_output_types(self, lhs_dtype: Any, rhs_dtype: Any) -> tuple[np.dtype, ...] | None:
        """The dtypes that the result may have without a conversion of the sums; None for any.

        Args:
          lhs_dtype: that of the left operand.
          rhs_dtype: that of the right operand.

        Returns:
          Dtypes, or None.
        """
        if self.name.startswith("ANY") and self.accumulation_type is not None:
            return (
                dtypes.float32, dtypes.float16, dtypes.bf16, dtypes.float8_e4m3fn, dtypes.float8_e5m2,
                dtypes.float8_e5m2fnuz, dtypes.float8_e4m3fnuz, dtypes.float8_e4m3b11fnuz,
            )  # fmt: skip
        total = self.accumulation_type
        if total is None:
            return None
        short = {"F16_F16_F32": dtypes.float16, "BF16_BF16_F32": dtypes.bf16}.get(self.name)
        same = np.dtype(lhs_dtype) == np.dtype(rhs_dtype) == short
        return (total, short) if short is not None and same else (total,)


_NAMED = {
    "F16": dtypes.float16, "BF16": dtypes.bf16, "TF32": dtypes.float32, "F32": dtypes.float32,
    "F64": dtypes.float64,
}  # fmt: skip
_PRECISIONS = {
    "BF16_BF16_F32_X3": Precision.HIGH, "BF16_BF16_F32_X6": Precision.HIGHEST, "BF16_BF16_F32_X9": Precision.HIGHEST,
    "TF32_TF32_F32_X3": Precision.HIGHEST, "F32_F32_F32": Precision.HIGHEST, "F64_F64_F64": Precision.HIGHEST,
}  # fmt: skip
DotPrecision = DotAlgorithm | DotAlgorithmPreset | Pair | None


def canonical_dot_precision(precision: Any) -> DotPrecision:
    """A precision for each operand, an algorithm, or None where nothing was asked for, nor by the setting.

    Raises:
      ValueError: there is no such precision, and no such algorithm.
    """
    if precision is None:
        precision = settings.default_matmul_precision
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        precision = DotAlgorithmPreset[precision]
    if isinstance(precision, DotAlgorithmPreset):
        return None if precision is DotAlgorithmPreset.DEFAULT else precision
    if isinstance(precision, DotAlgorithm):
        left, right, total = map(np.dtype, precision[:3])
        return precision._replace(lhs_precision_type=left, rhs_precision_type=right, accumulation_type=total)
    return canonical_precision(precision)


def swapped(precision: DotPrecision) -> DotPrecision:
    """The precision of the product of the operands in the other order."""
    if isinstance(precision, DotAlgorithm):
        left, right, _, left_parts, right_parts, *_ = precision
        return precision._replace(
            lhs_precision_type=right, rhs_precision_type=left, lhs_component_count=right_parts,
            rhs_component_count=left_parts,
        )  # fmt: skip
    return precision[::-1] if isinstance(precision, tuple) else precision


def computed_in(precision: DotPrecision, lhs: np.dtype, rhs: np.dtype) -> tuple[np.dtype, np.dtype, np.dtype | None]:
    """The dtypes that an algorithm rounds the operands to and sums in (None: that of the result).

    Raises:
      ValueError: the algorithm is one of float8, and the operands are not.
    """
    if isinstance(precision, DotAlgorithm):
        left, right, total, left_parts, right_parts, *_ = precision
        return left if left_parts == 1 else dtypes.float32, right if right_parts == 1 else dtypes.float32, total
    if not isinstance(precision, DotAlgorithmPreset):
        return lhs, rhs, None
    if precision.supported_lhs_types is not None:
        operand = precision.supported_lhs_types[0]
        return operand, operand, precision.accumulation_type
    if not {lhs, rhs} <= _FLOAT8:
        raise ValueError(f"dot_general: {precision} multiplies float8, and the operands are {lhs.name} and {rhs.name}.")
    return lhs, rhs, precision.accumulation_type


def algorithm_text(precision: DotPrecision) -> str:
    """The attribute of StableHLO's contractions for an algorithm that multiplies and sums in one dtype, which XLA has
    on every platform; empty for others, which conversions say.
    """
    if precision not in (DotAlgorithmPreset.F32_F32_F32, DotAlgorithmPreset.F64_F64_F64):
        return ""
    kind = str(precision)[:3].lower()
    return (
        f", algorithm = #stablehlo.dot_algorithm<lhs_precision_type = {kind}, rhs_precision_type = {kind}, "
        f"accumulation_type = {kind}, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, "
        "allow_imprecise_accumulation = false>"
    )


def pair_of(precision: DotPrecision) -> Pair | None:
    """The precision that XLA is asked for."""
    if isinstance(precision, DotAlgorithmPreset):
        each = _PRECISIONS.get(precision.name, Precision.DEFAULT)
        return each, each
    if isinstance(precision, DotAlgorithm):
        parts = (precision.lhs_component_count, precision.rhs_component_count)
        left, right = (Precision.DEFAULT if count == 1 else Precision.HIGHEST for count in parts)
        return left, right
    return precision
