"""Functions in C that programs on CPU call, if a C compiler was there when the package was installed.

They sort, select, find maxima, accumulate, reduce and multiply small arrays, convolve, compute elementwise functions,
draw random bits, make permutations of pivots, decompose small matrices, and call LAPACK with few threads. Without them,
or with XPR_NATIVE=0 in the environment, programs do the same in operations of XLA. c/allocator.c is about XLA's own
memory.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from xpr.backend import runtime
from xpr.backend.foreign import pycapsule
from xpr.backend.processor import CORES
from xpr.config import native_code_wanted
from xpr.dtypes import float32, float64

LIBRARY = os.path.join(os.path.dirname(__file__), "c", "native.so")  # compiled by hatch_build.py
SORT, ORDER, SELECT = "xpr_sort", "xpr_order", "xpr_select"  # described in c/sort.c
TOP_K = "xpr_top_k"  # in c/top_k.c
TRUE_INDICES = "xpr_true_indices"  # in c/true_indices.c
INDEX = "xpr_index"  # in c/argminmax.c
THREEFRY = "xpr_threefry"  # in c/threefry.c
MATVEC = "xpr_matvec"  # in c/matvec.c
MATMUL = "xpr_matmul"  # in c/matmul.c
REDUCE = "xpr_reduce"  # in c/reduce.c
CUMULATIVE = "xpr_cumulative"  # in c/cumulative.c
CONVOLUTION = "xpr_convolution"  # in c/convolution.c
PERMUTATION = "xpr_permutation"  # in c/permutation.c
SMALL_LU, SMALL_CHOLESKY, SMALL_SOLVE = "xpr_small_lu", "xpr_small_cholesky", "xpr_small_solve"  # in c/small_matrices.c
OF_ELEMENTS = "xpr_elementwise_"  # names of elementwise functions begin so, in c/elementwise.c
ELEMENTWISE = (
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "expm1", "log1p",
    "log", "pow", "cbrt", "lgamma", "digamma", "erf_inv", "rem",
)  # fmt: skip
SIN_COS = "sin_cos"  # one such function, which has two results


def elementwise_target(name: str, dtype: np.dtype) -> str:
    """The function in C for one of `ELEMENTWISE` or `SIN_COS`, and float32 or float64; for "log" of float32 is none."""
    return f"{OF_ELEMENTS}{name}_{dtype.name}"


_TARGETS = (
    SORT, ORDER, SELECT, TOP_K, TRUE_INDICES, INDEX, THREEFRY, MATVEC, MATMUL, REDUCE, CUMULATIVE, CONVOLUTION,
    PERMUTATION, SMALL_LU, SMALL_CHOLESKY, SMALL_SOLVE,
)  # fmt: skip
THREADED = "xpr_threaded_"  # names of routines that c/lapack.c calls begin so
_lock = threading.Lock()


@cache
def available() -> bool:
    """Whether programs may call these functions."""
    return os.path.exists(LIBRARY) and native_code_wanted()


def is_called_by(text: str) -> bool:
    """Whether the text of a program, StableHLO or HLO, calls one of these functions."""
    return any(mark in text for mark in (*(f'"{name}"' for name in _TARGETS), f'"{OF_ELEMENTS}', f'"{THREADED}'))


_COUNTED = re.compile(
    f'"({MATVEC}|{MATMUL}|{REDUCE}|{CUMULATIVE}|{THREEFRY}|{CONVOLUTION}|{OF_ELEMENTS}'
    f'|{SMALL_LU}|{SMALL_CHOLESKY}|{SMALL_SOLVE})[a-z0-9_]*"'
    '.*?backend_config ?= ?"([0-9 ]+)"'
)
_FLOPS_OF_ELEMENT = 20  # some, as of a polynomial
FLOPS_OF_THREEFRY = 115  # for each element: 20 rounds of 5, five injections of the key of 3
_FLOPS: dict[str, Callable[..., float]] = {  # of the numbers that a call has as its text
    MATVEC: lambda itemsize, rows, columns, along_rows: 2 * rows * columns,
    MATMUL: lambda itemsize, terms, rows, columns, *strides: 2 * terms * rows * columns,
    REDUCE: lambda operation, dtype, *sizes: math.prod(sizes),
    CUMULATIVE: lambda operation, dtype, outer, n, inner, reverse: outer * n * inner,
    CONVOLUTION: lambda of_offsets, dtype, images, summed, rows, columns, features, height, width, *window: (
        2 * images * summed * rows * columns * features * math.prod(window[:2])
    ),
    THREEFRY: lambda n, *are_arrays: FLOPS_OF_THREEFRY * n,
    SMALL_LU: lambda count, is_double, m, n: count * m * n * min(m, n),
    SMALL_CHOLESKY: lambda count, is_double, n: count * n**3 / 3,
    SMALL_SOLVE: lambda count, is_double, n, m, *flags: count * n * n * m,
    OF_ELEMENTS: lambda n, *is_number: _FLOPS_OF_ELEMENT * n,
}


def with_flops(costs: Mapping[str, float], text: str) -> dict[str, float]:
    """XLA's estimates for a program with the operations of these functions, of which XLA counts none.

    The text is that of the program, StableHLO or HLO.
    """
    total = max(costs.get("flops", 0.0), 0.0)  # XLA has -1 where it knows of none
    for name, numbers in _COUNTED.findall(text):
        total += _FLOPS[name](*map(float, numbers.split()))
    return {**costs, "flops": total} if total else dict(costs)


def register() -> None:
    """Makes the functions known to XLA.

    Raises:
      ValueError: there are none.
    """
    if not os.path.exists(LIBRARY):
        raise ValueError(
            f"The program calls functions in C, such as {SORT}, which this installation of xpr has not: there was "
            "no C compiler when it was installed. Install one and xpr anew, or compile the program here."
        )
    with _lock:
        _register()


@cache
def load() -> ctypes.CDLL:
    """The library that they are in."""
    return ctypes.CDLL(LIBRARY)


_AS_BUFFER = 160  # where a class of Python 3.11 has the address of its functions for buffers, on 64-bit machines


def give_buffers_of(cls: type) -> None:
    """Lets `memoryview(x)` ask `x.__buffer__` of a class, as Python does by itself from 3.12 on; without C it can't."""
    if sys.version_info >= (3, 12) or not available() or not hasattr(load(), "xpr_get_buffer"):
        return
    functions = ctypes.c_void_p.from_address(id(cls) + _AS_BUFFER).value
    ctypes.c_void_p.from_address(functions or 0).value = ctypes.cast(load().xpr_get_buffer, ctypes.c_void_p).value


def keep_blocks(limit: int) -> bool:
    """Has XLA, which must be loaded, keep freed blocks, large ones up to a number of bytes; returns whether it does."""
    return available() and bool(load().xpr_keep_blocks(b"libjax_common.so", ctypes.c_size_t(limit)))


def free_large_blocks() -> None:
    """Frees the large blocks that are kept."""
    if available():
        load().xpr_free_large_blocks()


@cache
def _register() -> None:
    library = load()
    library.xpr_set_cores(CORES)
    library.xpr_set_sorts(*(_function_of_numpy(dtype, _QUICKSORT) for dtype in (np.int32, np.int64)))
    for dtype in INDEXED:
        for name, position in _INDEX_FUNCTIONS.items():
            library.xpr_set_index_function(index_function(name, dtype), _function_of_numpy(dtype, position))
    of_elements = [elementwise_target(name, dtype) for name in (*ELEMENTWISE, SIN_COS) for dtype in (float32, float64)]
    of_elements.remove(elementwise_target("log", float32))
    for name in (*_TARGETS, *of_elements):
        target = pycapsule(ctypes.cast(getattr(library, name), ctypes.c_void_p))
        runtime.xc.register_custom_call_target(name, target, "cpu", api_version=0)


_ARRAY_FUNCTIONS = 365  # the index of `_PyDataType_GetArrFuncs` in the table of NumPy's C interface
_QUICKSORT = 33  # the position of the sort that need not be stable among the pointers of `PyArray_ArrFuncs`
_INDEX_FUNCTIONS = {"argmax": 26, "argmin": 46}  # `int f(void *start, intptr_t n, intptr_t *index, void *)`

# The dtypes whose argmax and argmin INDEX finds.
INDEXED = tuple(map(np.dtype, ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")))


def index_function(name: str, dtype: np.dtype) -> int:
    """The number by which INDEX knows a function, "argmax" or "argmin", of a dtype."""
    return INDEXED.index(dtype) * len(_INDEX_FUNCTIONS) + list(_INDEX_FUNCTIONS).index(name)


def _function_of_numpy(dtype: Any, position: int) -> ctypes.c_void_p:
    """A function of a dtype among the pointers of its `PyArray_ArrFuncs`, the one for this processor."""
    table = ctypes.cast(pointer_in(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))  # type: ignore[attr-defined]
    functions_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(table[_ARRAY_FUNCTIONS])
    functions = ctypes.cast(functions_of(np.dtype(dtype)), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.c_void_p(functions[position])


def pointer_in(capsule: Any, name: bytes | None) -> int:
    """The pointer that a capsule of this name holds."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return get(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, name)
