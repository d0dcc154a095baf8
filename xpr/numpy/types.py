"""dtypes as users name them: `jnp.float32` and the others, NumPy's abstract dtypes, and questions about dtypes.

`jnp.float32` is a `ScalarType`: it is called to make an array of its dtype, taken wherever a dtype is, and equal to the
`np.dtype` it stands for and to NumPy's scalar type of the same name.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.core.avals import aval_of
from xpr.dtypes import finfo, iinfo
from xpr.numpy.creation import asarray
from xpr.numpy.promotion import common_dtype

__all__ = [
    "bfloat16", "bool", "bool_", "can_cast", "cdouble", "character", "complex128", "complex64", "complex_",
    "complexfloating", "ComplexWarning", "csingle", "double", "dtype", "e", "euler_gamma", "finfo", "flexible",
    "float16", "float32", "float4_e2m1fn", "float64", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float_", "floating", "generic", "iinfo", "inexact", "inf", "int1", "int16", "int2", "int32", "int4", "int64",
    "int8", "int_", "integer", "iscomplexobj", "isdtype", "isrealobj", "isscalar", "issubdtype", "nan", "ndarray",
    "newaxis", "number", "object_", "pi", "promote_types", "result_type", "signedinteger", "single", "uint", "uint1",
    "uint16", "uint2", "uint32", "uint4", "uint64", "uint8", "unsignedinteger",
]  # fmt: skip


class ScalarType(type):
    """The class of `jnp.float32` and the others: dtypes that make arrays when called.

    >>> import xpr.numpy as jnp
    >>> jnp.float32(3)
    Array(3., dtype=float32)
    >>> jnp.arange(2).dtype == jnp.int32
    True
    """

    dtype: np.dtype

    @property
    def type(self) -> type:
        """NumPy's scalar type."""
        return self.dtype.type

    @property
    def __numpy_dtype__(self) -> np.dtype:  # NumPy's name for it, from 2.4
        return self.dtype

    def __call__(self, x: Any = 0) -> Any:
        return asarray(x, self.dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (ScalarType, np.dtype)):
            return self.dtype == getattr(other, "dtype", other)
        return self.dtype.type is other

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __instancecheck__(self, instance: object) -> bool:
        """Whether it is a NumPy scalar of this dtype; arrays are not."""
        return isinstance(instance, self.dtype.type)


def _scalar_type(of: Any) -> ScalarType:
    dtype = np.dtype(of)
    about = f"The dtype {dtype.name}; called with anything array-like, it makes an array of that dtype."
    return ScalarType(dtype.name, (), {"dtype": dtype, "__doc__": about, "__module__": "xpr.numpy"})


# -- The dtypes

bool_ = _scalar_type(np.bool_)
int2, int4, uint2, uint4 = map(_scalar_type, (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4))
int8, int16, int32, int64 = map(_scalar_type, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(_scalar_type, ("uint8", "uint16", "uint32", "uint64"))
float16, bfloat16, float32, float64 = map(_scalar_type, ("float16", ml_dtypes.bfloat16, "float32", "float64"))
float8_e4m3fn, float8_e4m3fnuz = map(_scalar_type, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz))
float8_e5m2, float8_e5m2fnuz = map(_scalar_type, (ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz))
float8_e4m3b11fnuz, float8_e8m0fnu = map(_scalar_type, (ml_dtypes.float8_e4m3b11fnuz, ml_dtypes.float8_e8m0fnu))
float8_e3m4, float8_e4m3 = _scalar_type(ml_dtypes.float8_e3m4), _scalar_type(ml_dtypes.float8_e4m3)
float4_e2m1fn = _scalar_type(ml_dtypes.float4_e2m1fn)
float6_e2m3fn, float6_e3m2fn = _scalar_type(ml_dtypes.float6_e2m3fn), _scalar_type(ml_dtypes.float6_e3m2fn)
int1, uint1 = (of and _scalar_type(of) for of in (dtypes.int1, dtypes.uint1))
complex64, complex128 = map(_scalar_type, ("complex64", "complex128"))
single, double, csingle, cdouble = float32, float64, complex64, complex128
int_, uint, float_, complex_ = int64, uint64, float64, complex128

# -- Abstract dtypes, for issubdtype

generic, number, inexact, integer = np.generic, np.number, np.inexact, np.integer
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
flexible, character, object_ = np.flexible, np.character, np.object_
dtype = np.dtype
ndarray = Array
ComplexWarning = np.exceptions.ComplexWarning

# -- Constants

pi, e, euler_gamma = math.pi, math.e, 0.5772156649015329
inf, nan = math.inf, math.nan
newaxis = None

# -- Questions


def _typed(x: Any) -> tuple[np.dtype, bool]:
    """The dtype of a dtype, its name, a Python type, an array or a number; and whether it is weak."""
    if x is None or isinstance(x, (str, type, np.dtype, dtypes.KeyType)):
        return dtypes.type_of(x)
    if hasattr(x, "dtype") and not (hasattr(x, "aval") or isinstance(x, (np.ndarray, np.generic))):
        return dtypes.type_of(x.dtype)  # an array of a library, whose axes have names or such
    aval = aval_of(x)
    return aval.dtype, aval.weak_type


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is below another in NumPy's hierarchy of dtypes, which here includes bfloat16, int4 and keys.

    Args:
      arg1: a dtype, its name, or a scalar type.
      arg2: a dtype, its name, or an abstract type such as `jnp.floating`.

    Returns:
      A boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.issubdtype(jnp.bfloat16, jnp.floating)
    True
    """
    return dtypes.issubdtype(arg1, arg2)


def promote_types(a: Any, b: Any) -> np.dtype:
    """The dtype to which two dtypes promote; Python's types are weak.

    Args:
      a: dtypes, their names, or `int`, `float`, `complex`.
      b: dtypes, their names, or `int`, `float`, `complex`.

    Returns:
      A dtype.

    Raises:
      TypeError: they have no common dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.promote_types("int32", "bfloat16")
    dtype(bfloat16)
    """
    return dtypes.promote_named(_typed(a), _typed(b))


def result_type(*args: Any) -> np.dtype:
    """The dtype that arrays, numbers and dtypes promote to together; None is the default float dtype.

    Raises:
      ValueError: there are no arguments.
      TypePromotionError: they have no common dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.result_type(jnp.int8(1), 2.0)
    dtype('float32')
    """
    if not args:
        raise ValueError("result_type: takes at least one array or dtype.")
    dtype, weak = common_dtype(dtypes.narrowed([_typed(x) for x in args]))
    return dtypes.canonical(dtype) if weak else dtypes.requested(dtype)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether NumPy's rules allow a cast between two dtypes.

    Args:
      from_: the dtype to cast from, or a NumPy array or scalar of that dtype.
      to: the dtype to cast to.
      casting: "no", "equiv", "safe", "same_kind" or "unsafe".

    Returns:
      A boolean.

    >>> import xpr.numpy as jnp
    >>> jnp.can_cast(jnp.int32, jnp.float64)
    True
    """
    from_ = from_.dtype if isinstance(from_, (np.ndarray, np.generic)) else from_
    return np.can_cast(np.dtype(from_), np.dtype(to), casting=casting)  # type: ignore[arg-type]  # it checks the string


_KINDS: dict[str, frozenset[np.dtype]] = {
    "bool": dtypes.BOOL, "signed integer": dtypes.SIGNED, "unsigned integer": dtypes.UNSIGNED,
    "integral": dtypes.INTEGERS, "real floating": dtypes.FLOATS, "complex floating": dtypes.COMPLEX,
    "numeric": dtypes.NUMBERS,
}  # fmt: skip


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, or of one of several.

    Args:
      dtype: a dtype, its name, or an object that has one.
      kind: a dtype; or "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating" or
        "numeric"; or a tuple of these.

    Returns:
      A boolean.

    Raises:
      ValueError: there is no such kind.

    >>> import xpr.numpy as jnp
    >>> jnp.isdtype(jnp.bfloat16, "real floating")
    True
    """
    resolved = np.dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(resolved, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return resolved in _KINDS[kind]
    try:
        return resolved == np.dtype(kind)
    except TypeError:
        known = ", ".join(map(repr, _KINDS))
        raise ValueError(f"isdtype: {kind!r} is neither a dtype nor one of the kinds {known}.") from None


def isscalar(element: Any) -> bool:
    """Whether this is a number, or an array without axes.

    >>> import xpr.numpy as jnp
    >>> jnp.isscalar(jnp.float32(1)), jnp.isscalar(jnp.ones(1))
    (True, False)
    """
    if hasattr(element, "__jax_array__"):
        element = element.__jax_array__()
    return element.ndim == 0 if hasattr(element, "ndim") else np.isscalar(element)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex, whatever the values.

    >>> import xpr.numpy as jnp
    >>> jnp.iscomplexobj(jnp.array([1 + 0j]))
    True
    """
    if x is None or isinstance(x, (int, float, complex)):
        return isinstance(x, complex)
    return (x.dtype if hasattr(x, "dtype") else asarray(x).dtype) in dtypes.COMPLEX


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex.

    >>> import xpr.numpy as jnp
    >>> jnp.isrealobj(jnp.array([1.0]))
    True
    """
    return not iscomplexobj(x)


bool = bool_
