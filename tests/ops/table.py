"""The op table: for every primitive the samples that the laws of tests/test_laws.py are tried on.

A family's rows are a list `ROWS` in its own module tests/ops/<family>_rows.py; this module gathers them. A row:

    Row(sinh_p, [Sample(floats(2, 3))], dtypes=INEXACT)
    Row(floor_p, [Sample(floats(4), edges=True), Sample(np.float32(0.5))])
    Row(gather_p, [Sample(floats(3, 4), integers(2, 1, below=3), **gather_params)], skip={"order2": "linear in ..."})
    Row(top_k_p, [Sample(distinct(2, 5), k=2)])

The laws, to be named in `skip={law: reason}` where one does not hold of a primitive (a reason is a sentence; `skip` is
strict: a law that holds although it is skipped is a failure, unless the reason opens with "sometimes"):

    value       compiled = NumPy reference, over the row's dtypes, domain edges included; the reference backend too
    typing      the typing rule = the type of the value, eager and compiled, weak types included
    eager       eager = compiled (bit for bit where the primitive is `exact`)
    jvp         the tangent = a finite difference, in float64, along a random direction
    zeros       symbolic zero tangents = tangents of zeros, for each subset of the operands
    linearize   linearize = jvp
    vjp         <ct, J v> = <J^T ct, v>
    order2      jvp of jvp = finite difference of jvp; reverse over forward = forward over reverse
    transpose   transposed twice = itself, operand by operand, for what is linear in it
    vmap        vmap = loop, for choices of mapped operands and axes, sizes 0 and 1 too; vmap of vmap
    commute     vmap of jvp = jvp of vmap, and vmap of vjp = vjp of vmap; jit inside = jit outside
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from xpr.core.primitive import Primitive

LAWS = (
    "value", "typing", "eager", "jvp", "zeros", "linearize", "vjp", "order2", "transpose", "vmap", "commute",
)  # fmt: skip

BOOLS = (np.dtype(bool),)
SIGNED = tuple(map(np.dtype, (np.int8, np.int16, np.int32, np.int64)))
UNSIGNED = tuple(map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64)))
INTEGERS = SIGNED + UNSIGNED
FLOATS = tuple(map(np.dtype, (bfloat16, np.float16, np.float32, np.float64)))
COMPLEX = tuple(map(np.dtype, (np.complex64, np.complex128)))
INEXACT = FLOATS + COMPLEX
NUMBERS = INTEGERS + INEXACT
ANY = BOOLS + NUMBERS


class FromTypes:
    """A parameter made from the operands' types by `make(*avals)`, such as a jaxpr."""

    def __init__(self, make: Callable[..., Any]):
        self.make = make


class Sample:
    """Operands (NumPy arrays or scalars, or Python scalars) and parameters for one application of a primitive.

    `edges=True`: the operands are there for their values alone (infinities, NaNs, jumps): the laws of differentiation
    leave the sample out.
    """

    def __init__(self, *operands: Any, edges: bool = False, **params: Any):
        self.operands = list(operands)
        self.edges = edges
        self.params = params

    def __repr__(self) -> str:
        return f"Sample({', '.join(map(_short, self.operands))}, {self.params})"


@dataclass
class Row:
    """One primitive, what to try it on, and what is true of it.

    differentiable: the laws of differentiation apply (to the operands of inexact dtype).
    dtypes: the value law converts the operands whose dtype is that of the first inexact operand (or of the first
        operand, where none is inexact) to each of these; None keeps the samples as they are.
    tolerance: of comparisons of values, relative, in units of the dtype's epsilon (default 16).
    skip: laws that don't hold, each with its reason.
    signed_zeros: False where the sign of a zero is left open, as in the greater of 0.0 and -0.0.
    along: for collectives, the name of the axis they run along: what is tried is the primitive mapped over axis 0 of
        all operands, with this name.
    of_refs: whether the first operand is put into a ref, which is passed to a jitted function that applies the
        primitive; what the ref holds afterwards is a further result.
    keys: the operands that are random keys of threefry2x32; samples have their words, and so have results.
    meaning: what takes the place of the reference rule, as a NumPy function of the operands that gives a list.
    """

    primitive: Primitive
    samples: Sequence[Sample]
    differentiable: bool = True
    skip: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 16.0
    dtypes: Sequence[Any] | None = None
    signed_zeros: bool = True
    along: str | None = None
    of_refs: bool = False
    keys: Sequence[int] = ()
    meaning: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        unknown = set(self.skip) - set(LAWS)
        if unknown:
            raise ValueError(f"{self.primitive}: skip names {sorted(unknown)}, and the laws are {LAWS}.")


# -- Data, drawn from generators seeded by what is asked for, so that a row gives the same numbers wherever it stands


def _generator(*what: Any) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def floats(*shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = np.float32, salt: int = 0) -> np.ndarray:
    """Numbers drawn evenly from (low, high); `salt` makes another array of the same shape different."""
    return _generator("floats", shape, low, high, salt).uniform(low, high, shape).astype(dtype)


def positive(*shape: int, dtype: Any = np.float32, salt: int = 0) -> np.ndarray:
    """Numbers drawn from (0.25, 2)."""
    return floats(*shape, low=0.25, high=2.0, dtype=dtype, salt=salt)


def complexes(*shape: int, dtype: Any = np.complex64, salt: int = 0) -> np.ndarray:
    """Complex numbers with both parts in (-2, 2)."""
    real, imaginary = (floats(*shape, dtype=np.float64, salt=s) for s in (salt, salt + 7))
    return (real + 1j * imaginary).astype(dtype)


def distinct(*shape: int, dtype: Any = np.float32, salt: int = 0) -> np.ndarray:
    """Numbers no two of which are near each other, shuffled: for maxima, sorting and the like."""
    size = int(np.prod(shape))
    order = _generator("distinct", shape, salt).permutation(size)
    return ((order - size / 2 + 0.25) * (4 / max(size, 4))).reshape(shape).astype(dtype)


def integers(*shape: int, low: int = 0, below: int = 10, dtype: Any = np.int32, salt: int = 0) -> np.ndarray:
    """Integers drawn evenly from [low, below)."""
    return _generator("integers", shape, low, below, salt).integers(low, below, shape).astype(dtype)


def booleans(*shape: int, salt: int = 0) -> np.ndarray:
    return _generator("booleans", shape, salt).integers(0, 2, shape).astype(bool)


def _short(x: Any) -> str:
    return f"{x.dtype.name}{list(x.shape)}" if isinstance(x, (np.ndarray, np.generic)) else repr(x)


# -- All rows


def gather() -> list[Row]:
    """The rows of every module tests/ops/*_rows.py, in the order of the modules' names."""
    package = importlib.import_module(__name__.rpartition(".")[0])
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name.endswith("_rows"))
    return [row for name in names for row in importlib.import_module(f"{package.__name__}.{name}").ROWS]


def cases(rows: Iterable[Row]) -> list[tuple[str, Row, Sample]]:
    """Each sample of each row, with an id such as `add-0`."""
    counted: dict[str, int] = {}
    found = []
    for row in rows:
        for sample in row.samples:
            name = row.primitive.name
            number = counted[name] = counted.get(name, -1) + 1
            found.append((f"{name}-{number}", row, sample))
    return found


def __getattr__(name: str) -> Any:
    # Gathered when asked for, since the modules of rows import this one.
    if name == "ROWS":
        rows = globals()["ROWS"] = gather()
        return rows
    raise AttributeError(name)
