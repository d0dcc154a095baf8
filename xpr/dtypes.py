"""dtypes: the ones xpr knows, 32-bit canonical forms, and the promotion lattice with weak types.

A dtype is NumPy's own `np.dtype`, with bfloat16, float8 and int4 from ml_dtypes. A value is *weak* when its dtype
came from a Python scalar; weak dtypes are nodes of their own in the lattice, below every array dtype of their kind,
so `x * 2.0` keeps the dtype of a bfloat16 `x`. The lattice is the one documented in JAX's "Type promotion semantics".
"""

from __future__ import annotations

from functools import cache, reduce
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from xpr.config import settings

float0 = np.dtype([("float0", np.void, 0)])  # the tangent type of integers and booleans: it holds nothing
bool_ = np.dtype(np.bool_)
int2, uint2 = np.dtype(ml_dtypes.int2), np.dtype(ml_dtypes.uint2)
int4, uint4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")
float8_e4m3fn, float8_e5m2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
float8_e4m3b11fnuz = np.dtype(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fnuz, float8_e5m2fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz), np.dtype(ml_dtypes.float8_e5m2fnuz)

FLOAT8 = (float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz)
DTypes: TypeAlias = "frozenset[np.dtype]"
BOOL: DTypes = frozenset({bool_})
SIGNED: DTypes = frozenset({int2, int4, int8, int16, int32, int64})
UNSIGNED: DTypes = frozenset({uint2, uint4, uint8, uint16, uint32, uint64})
INTEGERS: DTypes = SIGNED | UNSIGNED
FLOATS: DTypes = frozenset({float16, bfloat16, float32, float64, *FLOAT8})
COMPLEX: DTypes = frozenset({complex64, complex128})
INEXACT: DTypes = FLOATS | COMPLEX
NUMBERS: DTypes = INTEGERS | INEXACT
REAL: DTypes = INTEGERS | FLOATS
ANY: DTypes = NUMBERS | BOOL

_SHORT = {
    bool_: "bool", bfloat16: "bf16", float0: "float0",
    **{np.dtype(f"{kind}{n}"): f"{kind[0]}{n}" for kind in ("int", "uint", "float") for n in (8, 16, 32, 64)
       if f"{kind}{n}" != "float8"},
    complex64: "c64", complex128: "c128", int4: "i4", uint4: "u4", int2: "i2", uint2: "u2",
    **{f8: f8.name.replace("float8", "f8") for f8 in FLOAT8},
}  # fmt: skip

_NARROW: dict[np.dtype, np.dtype] = {float64: float32, int64: int32, uint64: uint32, complex128: complex64}
NARROWED = frozenset(_NARROW.values())

# The dtype a Python scalar has: weak, and wide or narrow with the x64 setting.
_PYTHON_WIDE: dict[type, np.dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}


def short_name(dtype: Any) -> str:
    """`f32` for float32: the notation of printed jaxprs and of error messages."""
    return _SHORT.get(dtype) or str(dtype)


def canonical(dtype: Any) -> np.dtype:
    """The dtype as xpr holds it: an `np.dtype`, narrowed to 32 bits unless 64-bit types are on."""
    if dtype in _PYTHON_WIDE:
        dtype = _PYTHON_WIDE[dtype]
    elif type(dtype) is not np.dtype:
        dtype = np.dtype(dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype))
    if settings.enable_x64:
        return dtype
    return _NARROW.get(dtype, dtype)


canonicalize_dtype = canonical


def of_python(kind: type) -> np.dtype:
    """The canonical dtype of a Python bool, int, float or complex."""
    wide = _PYTHON_WIDE[kind]
    return wide if settings.enable_x64 else _NARROW.get(wide, wide)


def is_narrowed(dtype: np.dtype) -> bool:
    """Whether `dtype` is a 64-bit type that the present setting narrows."""
    return not settings.enable_x64 and dtype in _NARROW


class extended(np.generic):
    """The dtypes that are no numbers."""


class prng_key(extended):
    """The dtypes of typed random keys."""


class KeyType:
    """The dtype of typed keys: not a number's, so arithmetic on keys is an error."""

    __slots__ = ()
    name = "key<fry>"
    itemsize = 8
    type = prng_key

    def __repr__(self) -> str:
        return self.name


def issubdtype(a: Any, b: Any) -> bool:
    """Like `np.issubdtype`, and it knows ml_dtypes' floats and integers, and the dtype of keys."""
    if isinstance(a, KeyType) or isinstance(b, KeyType):
        a, b = (x.type if isinstance(x, KeyType) else x for x in (a, b))
        return isinstance(a, type) and isinstance(b, type) and issubclass(a, b)
    a = a if isinstance(a, type) and issubclass(a, np.generic) else np.dtype(getattr(a, "dtype", a))
    if isinstance(a, np.dtype) and isinstance(b, type) and issubclass(b, np.generic):
        if a in FLOATS:
            return b in (np.floating, np.inexact, np.number, np.generic) or a.type is b
        if a in SIGNED:
            return b in (np.signedinteger, np.integer, np.number, np.generic) or a.type is b
        if a in UNSIGNED:
            return b in (np.unsignedinteger, np.integer, np.number, np.generic) or a.type is b
    return bool(np.issubdtype(a, b if isinstance(b, type) and issubclass(b, np.generic) else np.dtype(b)))


def to_inexact(dtype: np.dtype) -> np.dtype:
    """The float dtype in which a function like `sin` computes for arguments of this dtype."""
    if dtype in INEXACT:
        return dtype
    return float64 if settings.enable_x64 and dtype in (int64, uint64) else float32


_PARTS: dict[np.dtype, np.dtype] = {complex64: float32, complex128: float64}


def real_part_of(dtype: np.dtype) -> np.dtype:
    """float32 for complex64; the dtype itself where it is real."""
    return _PARTS.get(dtype, dtype)


def complex_of(dtype: np.dtype) -> np.dtype:
    """complex64 for float32; the dtype itself where it is complex."""
    if dtype in COMPLEX:
        return dtype
    return complex128 if dtype == float64 else complex64


def finfo(dtype: Any) -> Any:
    """`np.finfo`, also for bfloat16 and float8."""
    return ml_dtypes.finfo(canonical(dtype))


def iinfo(dtype: Any) -> Any:
    """`np.iinfo`, also for int4."""
    return ml_dtypes.iinfo(canonical(dtype))


def least(dtype: np.dtype) -> Any:
    """The least value of a dtype: what changes no maximum."""
    if dtype == bool_:
        return False
    if dtype in INTEGERS:
        return iinfo(dtype).min
    return -greatest(dtype)


def greatest(dtype: np.dtype) -> Any:
    """The greatest value of a dtype, infinity where there is one: what changes no minimum."""
    if dtype == bool_:
        return True
    if dtype in INTEGERS:
        return iinfo(dtype).max
    with np.errstate(over="ignore"):
        infinite = np.asarray(np.inf, dtype)
    return np.inf if np.isinf(infinite) else finfo(dtype).max


# -- Promotion. A node is a dtype, or one of the three weak kinds "i*", "f*", "c*"; an edge leads to the next wider.

_WEAK_NODE = {"i": "i*", "u": "i*", "f": "f*", "c": "c*"}
_WIDER: dict[Any, tuple[Any, ...]] = {
    bool_: ("i*",),
    "i*": (uint2, int2, uint4, int4, uint8, int8),
    uint2: (int4, uint4), int2: (int4,), uint4: (int8, uint8), int4: (int8,),
    uint8: (int16, uint16), int8: (int16,),
    uint16: (int32, uint32), int16: (int32,),
    uint32: (int64, uint64), int32: (int64,),
    uint64: ("f*",), int64: ("f*",),
    "f*": ("c*", float16, bfloat16, *FLOAT8),
    **dict.fromkeys(FLOAT8, ()),
    bfloat16: (float32,), float16: (float32,),
    float32: (float64, complex64), float64: (complex128,),
    "c*": (complex64,), complex64: (complex128,), complex128: (),
}  # fmt: skip


NO_OPERATIONS = (
    "An array of dtype float0 takes part in no operation: it stands for the derivative of integers or booleans, which "
    "is zero, and holds nothing. Zeros of its shape are jnp.zeros(x.shape)."
)


@cache
def _above(node: Any) -> frozenset[Any]:
    """The nodes that `node` promotes to, itself included."""
    if node == float0:
        raise TypeError(NO_OPERATIONS)
    return frozenset({node}).union(*(_above(wider) for wider in _WIDER[node]))


@cache
def _least_upper_bound(a: Any, b: Any) -> Any:
    common = _above(a) & _above(b)
    for node in common:
        if common == _above(node):
            return node
    raise TypeError(
        f"{_name(a)} and {_name(b)} have no common dtype to promote to. Convert one of them with .astype()."
    )


def _name(node: Any) -> str:
    return node if isinstance(node, str) else node.name


def _node(dtype: np.dtype, weak: bool) -> Any:
    return dtype if not weak or dtype == bool_ else _WEAK_NODE["f" if dtype in FLOATS else dtype.kind]


@cache
def _promote_wide(a: np.dtype, a_weak: bool, b: np.dtype, b_weak: bool) -> tuple[np.dtype, bool]:
    if a == b:
        return a, a_weak and b_weak
    if a_weak and b_weak:
        return _least_upper_bound(a, b), True
    node = _least_upper_bound(_node(a, a_weak), _node(b, b_weak))
    if isinstance(node, str):
        return {"i*": int64, "f*": float64, "c*": complex128}[node], True
    return node, False


def promote_types(a: np.dtype, a_weak: bool, b: np.dtype, b_weak: bool) -> tuple[np.dtype, bool]:
    """The dtype two dtypes meet in, in 64 bits where the lattice says so, and whether it is weak."""
    return _promote_wide(a, a_weak, b, b_weak)


def promote_pair(a: np.dtype, a_weak: bool, b: np.dtype, b_weak: bool) -> tuple[np.dtype, bool]:
    """The dtype two operands meet in, and whether it is weak."""
    dtype, weak = _promote_wide(a, a_weak, b, b_weak)
    return (dtype if settings.enable_x64 else _NARROW.get(dtype, dtype)), weak


def promote_all(types: list[tuple[np.dtype, bool]]) -> tuple[np.dtype, bool]:
    """`promote_pair` over any number of (dtype, weak) pairs.

    Strong types are joined first: a weak type yields to all of them at once, whatever the order of the operands.
    """
    ordered = sorted(types, key=lambda t: t[1])
    return reduce(lambda a, b: promote_pair(*a, *b), ordered)
