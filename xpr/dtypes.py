"""dtypes: the ones xpr knows, 32-bit canonical forms, and the promotion lattice with weak types.

A dtype is NumPy's own `np.dtype`, with bfloat16 and those of 8 bits and less from ml_dtypes. A value is *weak* when its
dtype came from a Python scalar; weak dtypes are nodes of their own in the lattice, below every array dtype of their
kind, so `x * 2.0` keeps the dtype of a bfloat16 `x`. The lattice is the one documented in JAX's "Type promotion
semantics".
"""

from __future__ import annotations

from functools import cache, reduce
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from xpr.config import settings
from xpr.errors import ArgumentError, TypePromotionError
from xpr.key_types import KeyType as KeyType
from xpr.key_types import extended as extended
from xpr.key_types import prng_key as prng_key

float0 = np.dtype([("float0", np.void, 0)])  # the tangent type of integers and booleans: it holds nothing
bool_ = np.dtype(np.bool_)
int2, uint2 = np.dtype(ml_dtypes.int2), np.dtype(ml_dtypes.uint2)
int4, uint4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
bfloat16 = ml_dtypes.bfloat16  # the class of scalars, which is what this name means in JAX
bf16 = np.dtype(bfloat16)
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")
string = np.dtypes.StringDType()  # of arrays on CPU devices that are put there, moved and read, and not computed with
float8_e4m3fn, float8_e5m2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
float8_e4m3b11fnuz = np.dtype(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fnuz, float8_e5m2fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz), np.dtype(ml_dtypes.float8_e5m2fnuz)
float8_e3m4, float8_e4m3 = np.dtype(ml_dtypes.float8_e3m4), np.dtype(ml_dtypes.float8_e4m3)
float8_e8m0fnu = np.dtype(ml_dtypes.float8_e8m0fnu)  # powers of 2: no zero, no sign
float4_e2m1fn = np.dtype(ml_dtypes.float4_e2m1fn)
float6_e2m3fn, float6_e3m2fn = np.dtype(ml_dtypes.float6_e2m3fn), np.dtype(ml_dtypes.float6_e3m2fn)
int1: np.dtype | None = (
    np.dtype(ml_dtypes.int1) if hasattr(ml_dtypes, "int1") else None
)  # a name: XLA has no arrays of it
uint1: np.dtype | None = np.dtype(ml_dtypes.uint1) if hasattr(ml_dtypes, "uint1") else None

SMALL_FLOATS = (  # float6s have names, and no arrays: jaxlib can't hold them, and XLA:CPU ends the process
    float4_e2m1fn, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn,
    float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu,
)  # fmt: skip
_FLOATS_OF_6_BITS = (float6_e2m3fn, float6_e3m2fn)
NARROW_INTEGERS = (uint2, int2, uint4, int4)
DTypes: TypeAlias = "frozenset[np.dtype]"
BOOL: DTypes = frozenset({bool_})
SIGNED: DTypes = frozenset({int2, int4, int8, int16, int32, int64})
UNSIGNED: DTypes = frozenset({uint2, uint4, uint8, uint16, uint32, uint64})
INTEGERS: DTypes = SIGNED | UNSIGNED
FLOATS: DTypes = frozenset({float16, bf16, float32, float64, *SMALL_FLOATS})
_NAMED_FLOATS = FLOATS | {*_FLOATS_OF_6_BITS}
_NAMED_SIGNED, _NAMED_UNSIGNED = SIGNED | {int1}, UNSIGNED | {uint1}
COMPLEX: DTypes = frozenset({complex64, complex128})
INEXACT: DTypes = FLOATS | COMPLEX
NUMBERS: DTypes = INTEGERS | INEXACT
REAL: DTypes = INTEGERS | FLOATS
ANY: DTypes = NUMBERS | BOOL
_OF_ML_DTYPES: dict[Any, np.dtype] = {
    d.type: d for d in _NAMED_SIGNED | _NAMED_UNSIGNED | _NAMED_FLOATS if d and d.type.__module__ == "ml_dtypes"
}

_SHORT = {
    bool_: "bool", bf16: "bf16", float0: "float0",
    **{np.dtype(f"{kind}{n}"): f"{kind[0]}{n}" for kind in ("int", "uint", "float") for n in (8, 16, 32, 64)
       if f"{kind}{n}" != "float8"},
    string: string.name, complex64: "c64", complex128: "c128", int4: "i4", uint4: "u4", int2: "i2", uint2: "u2",
    **{small: small.name.replace("float", "f") for small in SMALL_FLOATS},
}  # fmt: skip

_NARROW: dict[np.dtype, np.dtype] = {float64: float32, int64: int32, uint64: uint32, complex128: complex64}
NARROWED = frozenset(_NARROW.values())

# The dtype a Python scalar has: weak, and wide or narrow with the x64 setting.
_PYTHON_WIDE: dict[type, np.dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}


def short_name(dtype: Any) -> str:
    """The short name of a dtype, as in printed jaxprs and in error messages: `f32` for float32.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.short_name(np.dtype("float32"))
    'f32'
    """
    return _SHORT.get(dtype) or str(dtype)


def canonical(dtype: Any) -> np.dtype:
    """The dtype of xpr's arrays for a dtype: an `np.dtype`, narrowed to 32 bits unless 64-bit types are on.

    Raises:
      ArgumentError: it has no hash, as arrays.

    >>> from xpr import dtypes
    >>> dtypes.canonical(float)
    dtype('float32')
    """
    try:
        wide = _PYTHON_WIDE.get(dtype)
    except TypeError:
        raise ArgumentError(f"{dtype!r} cannot be interpreted as a data type. Give its name or x.dtype.") from None
    if wide is not None:
        dtype = wide
    elif type(dtype) is not np.dtype:
        dtype = dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype)
        if type(dtype) is KeyType:
            return dtype  # type: ignore[return-value]  # the one dtype that is not NumPy's
        dtype = np.dtype(dtype)
    if settings.enable_x64:
        return dtype
    return _NARROW.get(dtype, dtype)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> np.dtype:
    """The dtype of xpr's arrays for a dtype, as `canonical` has it.

    Args:
      dtype: a dtype, or what NumPy makes one of.
      allow_extended_dtype: whether dtypes of random keys are taken.

    Returns:
      The dtype.

    Raises:
      ValueError: it is the dtype of random keys, and those are not taken.

    >>> from xpr import dtypes
    >>> dtypes.canonicalize_dtype("float64")
    dtype('float32')
    """
    result = canonical(dtype)
    if not allow_extended_dtype and type(result) is KeyType:  # type: ignore[comparison-overlap]  # as above
        raise ValueError(f"canonicalize_dtype: {result} is a dtype of random keys, and allow_extended_dtype is False.")
    return result


def requested(dtype: Any) -> np.dtype:
    """The dtype of xpr's arrays for one that was asked for by name.

    While 64-bit types are off they are narrowed, unless the setting `explicit_x64_dtypes` is "allow".

    Raises:
      ValueError: a 64-bit type was asked for, those are off, and the setting is "error".

    >>> from xpr import dtypes
    >>> dtypes.requested("float64")
    dtype('float32')
    """
    narrow = canonical(dtype)
    mode = settings.explicit_x64_dtypes
    if mode == "warn" or narrow not in NARROWED or dtype in _PYTHON_WIDE:
        return narrow
    wide = in_numpy(dtype)
    if wide != narrow and mode == "error":
        raise ValueError(
            f"Explicitly requested dtype {wide.name} is not available, since 64-bit types are off and "
            'explicit_x64_dtypes is "error". Switch them on with xpr.config.update("enable_x64", True), or ask for '
            f"{narrow.name}."
        )
    return wide


def of_python(kind: type) -> np.dtype:
    """The dtype of a Python bool, int, float or complex.

    >>> from xpr import dtypes
    >>> dtypes.of_python(int)
    dtype('int32')
    """
    wide = _PYTHON_WIDE[kind]
    return wide if settings.enable_x64 else _NARROW.get(wide, wide)


def is_narrowed(dtype: np.dtype) -> bool:
    """Whether a dtype is a 64-bit type that the present setting narrows to 32 bits.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.is_narrowed(np.dtype("float64"))
    True
    """
    return not settings.enable_x64 and dtype in _NARROW


def narrows_arrays(dtype: np.dtype) -> bool:
    """Whether arrays of a dtype are narrowed when they are operands, since it is a 64-bit type and those are off.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.narrows_arrays(np.dtype("float64"))
    True
    """
    return dtype in _NARROW and not settings.enable_x64 and settings.explicit_x64_dtypes != "allow"


def issubdtype(a: Any, b: Any) -> bool:
    """Whether a dtype is below another in NumPy's hierarchy of dtypes, which here includes bfloat16, int4 and keys.

    Args:
      a: a dtype, its name, or a scalar type.
      b: a dtype, its name, or an abstract type such as `jnp.floating`.

    Returns:
      A boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.issubdtype(jnp.bfloat16, jnp.floating)
    True
    """
    if isinstance(getattr(a, "dtype", a), KeyType) or isinstance(b, KeyType):
        a, b = (getattr(getattr(x, "dtype", x), "type", x) for x in (a, b))
        return isinstance(a, type) and isinstance(b, type) and issubclass(a, b)
    a = _OF_ML_DTYPES.get(a, a) if isinstance(a, type) else a
    a = a if isinstance(a, type) and issubclass(a, np.generic) else np.dtype(getattr(a, "dtype", a))
    if isinstance(a, np.dtype) and isinstance(b, type) and issubclass(b, np.generic):
        if a in _NAMED_FLOATS:
            return b in (np.floating, np.inexact, np.number, np.generic) or a.type is b
        if a in _NAMED_SIGNED:
            return b in (np.signedinteger, np.integer, np.number, np.generic) or a.type is b
        if a in _NAMED_UNSIGNED:
            return b in (np.unsignedinteger, np.integer, np.number, np.generic) or a.type is b
    return bool(np.issubdtype(a, b if isinstance(b, type) and issubclass(b, np.generic) else np.dtype(b)))


def to_inexact(dtype: np.dtype) -> np.dtype:
    """The float dtype in which a function like `sin` computes for arguments of a dtype.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.to_inexact(np.dtype("int8"))
    dtype('float32')
    """
    if dtype in INEXACT:
        return dtype
    return float64 if dtype in (int64, uint64) and not narrows_arrays(dtype) else float32


_PARTS: dict[np.dtype, np.dtype] = {complex64: float32, complex128: float64}


def real_part_of(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part of a dtype: float32 for complex64, a real dtype itself.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.real_part_of(np.dtype("complex64"))
    dtype('float32')
    """
    return _PARTS.get(dtype, dtype)


def complex_of(dtype: np.dtype) -> np.dtype:
    """The complex dtype whose parts have a dtype: complex64 for float32, a complex dtype itself.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.complex_of(np.dtype("float32"))
    dtype('complex64')
    """
    if dtype in COMPLEX:
        return dtype
    return complex128 if dtype == float64 else complex64


def finfo(dtype: Any) -> Any:
    """The limits of a float dtype, or of that of an array, as `np.finfo` gives them, also of bfloat16 and float8.

    Wide dtypes are not narrowed: those of `float` are those of float64.

    >>> import xpr.numpy as jnp
    >>> jnp.finfo("float16").bits, jnp.finfo(jnp.ones(3)).bits, jnp.finfo(float).bits
    (16, 32, 64)
    """
    return _finfo(in_numpy(dtype))


def iinfo(int_type: Any) -> Any:
    """The limits of an integer dtype, or of that of an array or a number, as `np.iinfo` gives them, also of int4.

    Wide dtypes are not narrowed: those of `int` are those of int64.

    >>> import xpr.numpy as jnp
    >>> jnp.iinfo("int8").max, jnp.iinfo(jnp.arange(3)).bits, jnp.iinfo(int).bits
    (127, 32, 64)
    """
    return _iinfo(np.dtype(int) if type(int_type) is int else in_numpy(int_type))


_finfo, _iinfo = cache(ml_dtypes.finfo), cache(ml_dtypes.iinfo)


def in_numpy(dtype: Any) -> np.dtype:
    """NumPy's dtype for a dtype, its name or a scalar type, or that of an array: not narrowed to 32 bits.

    >>> from xpr import dtypes
    >>> dtypes.in_numpy(float)
    dtype('float64')
    """
    return np.dtype(dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype))


def itemsize_bits(dtype: Any) -> int:
    """The number of bits of an element of a dtype.

    Raises:
      ValueError: the dtype is None.

    >>> from xpr import dtypes
    >>> dtypes.itemsize_bits("int4"), dtypes.itemsize_bits("float32")
    (4, 32)
    """
    if dtype is None:
        raise ValueError("itemsize_bits: dtype cannot be None, which stands for no dtype here.")
    dtype = in_numpy(dtype)
    if dtype in _NAMED_SIGNED | _NAMED_UNSIGNED:
        return int(ml_dtypes.iinfo(dtype).bits)
    return int(ml_dtypes.finfo(dtype).bits) if dtype in _NAMED_FLOATS else 8 * dtype.itemsize


def scalar_type_of(x: Any) -> type:
    """The type of Python's scalars of the kind of an array or a number.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.scalar_type_of(np.int8(1)), dtypes.scalar_type_of(2.5)
    (<class 'int'>, <class 'float'>)
    """
    dtype = np.dtype(x.dtype) if hasattr(x, "dtype") else np.dtype(type(x))
    return (bool, int, float, complex)[_rank_of_kind(dtype)]


def least(dtype: np.dtype) -> Any:
    """The least value of a dtype, the neutral element of the maximum.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> int(dtypes.least(np.dtype("int8")))
    -128
    """
    if dtype == bool_:
        return False
    if dtype in INTEGERS:
        return iinfo(dtype).min
    return finfo(dtype).min if dtype == float8_e8m0fnu else -greatest(dtype)


def greatest(dtype: np.dtype) -> Any:
    """The greatest value of a dtype (infinity if there is one), the neutral element of the minimum.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> int(dtypes.greatest(np.dtype("int8")))
    127
    """
    if dtype == bool_:
        return True
    if dtype in INTEGERS:
        return iinfo(dtype).max
    with np.errstate(over="ignore"):
        infinite = np.asarray(np.inf, dtype)
    return np.inf if np.isinf(infinite) else finfo(dtype).max


# -- Promotion. A node is a dtype, or one of the three weak kinds "i*", "f*", "c*"; an edge leads to the next wider.
# None leads on from the integers and floats of few bits: other dtypes beside them have to be converted explicitly.

_OF_FEW_BITS = frozenset((*NARROW_INTEGERS, *SMALL_FLOATS, *_FLOATS_OF_6_BITS))
_WEAK_NODE = {"i": "i*", "u": "i*", "f": "f*", "c": "c*"}
_WIDER: dict[Any, tuple[Any, ...]] = {
    bool_: ("i*",),
    "i*": (*NARROW_INTEGERS, uint8, int8),
    **dict.fromkeys(NARROW_INTEGERS, ()),
    uint8: (int16, uint16), int8: (int16,),
    uint16: (int32, uint32), int16: (int32,),
    uint32: (int64, uint64), int32: (int64,),
    uint64: ("f*",), int64: ("f*",),
    "f*": ("c*", float16, bf16, *SMALL_FLOATS, *_FLOATS_OF_6_BITS),
    **dict.fromkeys((*SMALL_FLOATS, *_FLOATS_OF_6_BITS), ()),
    bf16: (float32,), float16: (float32,),
    float32: (float64, complex64), float64: (complex128,),
    "c*": (complex64,), complex64: (complex128,), complex128: (),
}  # fmt: skip


NO_OPERATIONS = (
    "float0s do not support any operations by design: an array of dtype float0 stands for the derivative of integers "
    "or booleans, which is zero, and holds nothing. Zeros of its shape are jnp.zeros(x.shape)."
)


NO_NUMBERS = (
    "Random keys are no numbers: they don't take part in arithmetic, and promote to no other dtype. "
    "random.key_data(keys) gives their words, as uint32."
)


@cache
def _above(node: Any) -> frozenset[Any]:
    """The nodes that `node` promotes to, itself included."""
    if node == float0:
        raise TypeError(NO_OPERATIONS)
    if type(node) is KeyType:
        raise TypeError(NO_NUMBERS)
    if node not in _WIDER:
        raise TypePromotionError(
            f"dtype={node} is not a valid dtype for JAX type promotion: only booleans and numbers promote. Arrays of "
            "strings are put on devices, moved and read by np.asarray(x)."
        )
    return frozenset({node}).union(*(_above(wider) for wider in _WIDER[node]))


@cache
def _least_upper_bound(a: Any, b: Any) -> Any:
    common = _above(a) & _above(b)
    for node in common:
        if common == _above(node):
            return node
    few = next((_described(node) for node in (a, b) if node in _OF_FEW_BITS), None)
    why = "" if few is None else f": {few} do not support implicit promotion"
    raise TypePromotionError(
        f"{_name(a)} and {_name(b)} have no common dtype to promote to{why}. Convert one of them with .astype()."
    )


def _described(node: Any) -> str:
    """Which dtypes of few bits a dtype is one of: "4-bit integers"."""
    return f"{itemsize_bits(node)}-bit {'floats' if node in _NAMED_FLOATS else 'integers'}"


_PYTHON_KINDS = {"i*": "a Python int", "f*": "a Python float", "c*": "a Python complex number"}


def _name(node: Any) -> str:
    return _PYTHON_KINDS[node] if isinstance(node, str) else node.name


def _node(dtype: np.dtype, weak: bool) -> Any:
    return dtype if not weak or dtype == bool_ else _WEAK_NODE["f" if dtype in FLOATS else dtype.kind]


@cache
def _promote_wide(a: np.dtype, a_weak: bool, b: np.dtype, b_weak: bool) -> tuple[np.dtype, bool]:
    if a == b:
        return a, a_weak and b_weak and a != bool_
    if a_weak and b_weak:
        return _least_upper_bound(a, b), True
    node = _least_upper_bound(_node(a, a_weak), _node(b, b_weak))
    if isinstance(node, str):
        return {"i*": int64, "f*": float64, "c*": complex128}[node], True
    return node, False


def _rank_of_kind(dtype: np.dtype) -> int:
    return 0 if dtype == bool_ else 1 if dtype in INTEGERS else 2 if dtype in FLOATS else 3


def refuse_promotion(types: list[tuple[np.dtype, bool]]) -> None:
    """Refuses to convert strong types, and weak ones to a lesser kind (a float beside integers), and any bool.

    Raises:
      TypePromotionError: the `(dtype, weak)` pairs differ in that way.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.refuse_promotion([(np.dtype("float32"), False), (np.dtype("float32"), True)])
    """
    (a, a_weak), *others = sorted(types, key=lambda t: t[1])
    for b, b_weak in others:
        if a == b or a_weak:
            continue
        for dtype in (a, b):
            _above(dtype)  # which raises where a dtype takes part in no operation
        if not b_weak or bool_ in (a, b) or _rank_of_kind(b) > _rank_of_kind(a):
            raise TypePromotionError(
                f"Input dtypes {a.name} and {b.name} have no available implicit dtype promotion path: they are not "
                'converted implicitly while numpy_dtype_promotion is "strict". Convert one of them with .astype().'
            )


def promote_pair(a: np.dtype, a_weak: bool, b: np.dtype, b_weak: bool) -> tuple[np.dtype, bool]:
    """The dtype to which the dtypes of two operands promote, and whether it is weak.

    Args:
      a: the dtype of the first.
      a_weak: whether it is weak, as those of Python scalars are.
      b: the dtype of the second.
      b_weak: whether it is weak.

    Returns:
      `(dtype, weak)`.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.promote_pair(np.dtype("int8"), False, np.dtype("int32"), True)
    (dtype('int8'), False)
    """
    dtype, weak = _promote_wide(a, a_weak, b, b_weak)
    if dtype in _NARROW and not settings.enable_x64:
        if weak or dtype not in (a, b) or settings.explicit_x64_dtypes != "allow":
            return _NARROW[dtype], weak
    return dtype, weak


def promote_named(a: tuple[np.dtype, bool], b: tuple[np.dtype, bool]) -> np.dtype:
    """The dtype to which two dtypes that were named promote, which 64-bit types being off narrows in one case only.

    Args:
      a: the first dtype, and whether it is weak, as those of Python scalars are.
      b: the second.

    Returns:
      A dtype.

    Raises:
      TypePromotionError: they have no common dtype.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.promote_named((np.dtype("int32"), False), (np.dtype("uint32"), False))
    dtype('int32')
    """
    dtype, weak = _promote_wide(*a, *b)
    if weak:
        return next(wide for wide, narrow in _NARROW.items() if dtype in (wide, narrow))
    return int32 if dtype == int64 and not settings.enable_x64 and int64 not in (a[0], b[0]) else dtype


def promote_all(types: list[tuple[np.dtype, bool]]) -> tuple[np.dtype, bool]:
    """The dtype to which any number of `(dtype, weak)` pairs promote, and whether it is weak.

    Strong types are joined first: a weak type yields to all of them at once, whatever the order of the operands.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.promote_all([(np.dtype("int8"), False), (np.dtype("float16"), False)])
    (dtype('float16'), False)
    """
    ordered = sorted(types, key=lambda t: t[1])
    return reduce(lambda a, b: promote_pair(*a, *b), ordered)


def type_of(x: Any) -> tuple[np.dtype, bool]:
    """The dtype of an array, a number, a dtype, its name, or a Python type; and whether it is weak.

    >>> from xpr import dtypes
    >>> dtypes.type_of("int8"), dtypes.type_of(2.5)
    ((dtype('int8'), False), (dtype('float32'), True))
    """
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype, aval.weak_type
    if x is None:
        return of_python(float), False
    kind = x if isinstance(x, type) else type(x)
    if kind in _PYTHON_WIDE:
        return of_python(kind), kind is not bool
    if hasattr(x, "shape") and not isinstance(x, (np.dtype, type)):
        return canonical(x.dtype), False
    if isinstance(x, KeyType):
        return x, False  # type: ignore[return-value]  # the one dtype that is not NumPy's
    return in_numpy(x), False


def narrowed(types: list[tuple[np.dtype, bool]]) -> list[tuple[np.dtype, bool]]:
    """The `(dtype, weak)` pairs with the dtypes of arrays that are asked for by these names.

    >>> import numpy as np
    >>> from xpr import dtypes
    >>> dtypes.narrowed([(np.dtype("uint64"), False)])
    [(dtype('uint32'), False)]
    """
    return [(dtype if weak else requested(dtype), weak) for dtype, weak in types]


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype that arrays, numbers and dtypes promote to together.

    Args:
      *args: arrays, numbers, dtypes, their names, Python types; None stands for the default float dtype.
      return_weak_type_flag: whether to return also whether the result is weak, as Python numbers are.

    Returns:
      A dtype, or a dtype and a boolean.

    Raises:
      ValueError: there are no arguments.
      TypePromotionError: they have no common dtype.

    >>> from xpr import dtypes
    >>> dtypes.result_type("int8", 2.0, return_weak_type_flag=True)
    (dtype('float32'), True)
    """
    if not args:
        raise ValueError("result_type: takes at least one array or dtype.")
    types = narrowed([type_of(x) for x in args])
    if settings.numpy_dtype_promotion == "strict":
        refuse_promotion(types)
    dtype, weak = promote_all(types)
    dtype = canonical(dtype) if weak else requested(dtype)
    return (dtype, weak) if return_weak_type_flag else dtype
