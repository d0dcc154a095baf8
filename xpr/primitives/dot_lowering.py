"""Lowering of contractions (dot_general) to StableHLO.

On CPU four kinds are lowered to other operations: products of small matrices to sums of elementwise products, products
of a matrix and a vector, or of two vectors, to calls of backend/c/matvec.c, products of matrices of moderate size to
calls of backend/c/matmul.c, and products with several contracted axes to products with one.

The right operand of a matrix product gets a fusion barrier on CPU if it may be one number that is broadcast. XLA:CPU
(jaxlib 0.10.2) hands products to a library, together with what computes their operands, and there the product with such
an operand reads out of bounds, as in `x @ broadcast_to(y.sum(), (64, 64))` and `(x @ full((64, 64), c)).sum(-1)`. So
does a convolution. What is computed from arguments is surely no such operand (`Builder.varied`), so most products have
no barrier: the gradient of a small network takes 0.8 times as long as with one each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import native
from xpr.backend.mlir_text import int_list
from xpr.backend.processor import CORES
from xpr.backend.stablehlo import OF_TWO_BITS, Builder, Value
from xpr.core.avals import ShapedArray
from xpr.primitives import native_calls
from xpr.primitives.dot_algorithms import DotAlgorithm, DotAlgorithmPreset, algorithm_text, computed_in, pair_of
from xpr.primitives.precision import in_one_dtype, precision_text, summed_in

Axes = tuple[int, ...]
Numbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]

# What XLA multiplies in another dtype alone, in which products are exact (jaxlib 0.10.2).
_MULTIPLIED_AS = {**OF_TWO_BITS, dtypes.float4_e2m1fn: dtypes.float32}


_MULTIPLIED_IN_C = (dtypes.float32, dtypes.float64)
_FEW_TERMS, _SMALL_MATRIX = 2, 1 << 14  # elements
# Bytes of the numbers that are multiplied: up to which one thread has a product of matrices as soon as XLA on all
# cores, whose threads are awake in a network; and up to which threads have one of many rows, which they divide, if it
# is of matrices in memory: in a network, where a matrix is computed, XLA's threads are in their way.
_MULTIPLIED_BY_ONE_THREAD, _MULTIPLIED_BY_ROWS, _MANY_ROWS = (1 << 24) // CORES, 3 << 24, 96
_FEW_ROWS, _FEW_PRODUCTS = 32, 1 << 18  # of a left matrix, for which a large right one would be transposed


def free_axes(ndim: int, contracted: Sequence[int], batched: Sequence[int]) -> Axes:
    """The axes of an operand that are neither contracted nor batched, in order."""
    return tuple(a for a in range(ndim) if a not in contracted and a not in batched)


def lower_dot_general(
    b: Builder,
    operands: list[Value],
    avals: list[ShapedArray],
    *,
    dimension_numbers: Numbers,
    precision: Any,
    preferred_element_type: Any,
) -> list[Value]:
    """The lowering rule of dot_general."""
    (out,) = avals
    algorithm = ""
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        left, right, total = computed_in(precision, *(x.aval.dtype for x in operands))
        operands = [b.convert(x, dtype) for x, dtype in zip(operands, (left, right))]
        if total is not None and total != out.dtype:
            summed = out.update(dtype=total)
            (product,) = lower_dot_general(
                b, operands, [summed], dimension_numbers=dimension_numbers, precision=pair_of(precision),
                preferred_element_type=total,
            )  # fmt: skip
            return [b.convert(product, out.dtype)]
        precision, algorithm = pair_of(precision), algorithm_text(precision)
    if _MULTIPLIED_AS.keys() & {out.dtype, *(x.aval.dtype for x in operands)}:
        wide = [b.convert(x, _MULTIPLIED_AS.get(x.aval.dtype, x.aval.dtype)) for x in operands]
        (product,) = lower_dot_general(
            b, wide, [out.update(dtype=_MULTIPLIED_AS.get(out.dtype, out.dtype))], dimension_numbers=dimension_numbers,
            precision=precision, preferred_element_type=preferred_element_type,
        )  # fmt: skip
        return [b.convert(product, out.dtype)]
    b.module.work.products += 1
    lhs, rhs = in_one_dtype(b, operands, out.dtype)
    (lc, rc), (lb, rb) = dimension_numbers
    if b.platform == "cpu" and _is_small(lhs.aval, rhs.aval, out, dimension_numbers, b.runs_once):
        return [_lower_as_sum(b, lhs, rhs, out, dimension_numbers)]
    if b.platform == "cpu" and len(lc) > 1 and not b.may_be_partitioned:
        lhs, rhs, ((lc, rc), (lb, rb)) = _merge_contracted(b, lhs, rhs, dimension_numbers)
    if not algorithm and (by_vector := _by_vector(b, lhs, rhs, out, ((lc, rc), (lb, rb)))) is not None:
        return [by_vector]
    if b.platform == "cpu" and lhs.aval.ndim == 2 and len(lc) == 1 and not lb:
        lhs, lc = _before_transpose(b, lhs, lc)
    if not algorithm and (by_matrix := _by_matrix(b, lhs, rhs, out, ((lc, rc), (lb, rb)))) is not None:
        return [by_matrix]
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {int_list(lb)}, rhs_batching_dimensions = {int_list(rb)}, "
        f"lhs_contracting_dimensions = {int_list(lc)}, rhs_contracting_dimensions = {int_list(rc)}>"
    )
    summed = summed_in(lhs.aval.dtype, out)
    # One of both: StableHLO wants no precision beside an algorithm.
    properties = f"dot_dimension_numbers = {numbers}, {precision_text(None if algorithm else precision)}{algorithm}"
    if b.platform == "cpu" and out.ndim - len(lb) > 1 and rhs not in b.varied:
        rhs = b.fusion_barrier(rhs)
    return [b.convert(b.op("stablehlo.dot_general", [lhs, rhs], summed, properties), out.dtype)]


def _by_vector(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, numbers: Numbers) -> Value | None:
    """The product of a matrix and a vector, or of two vectors, by backend/c/matvec.c; None if XLA is to compute it.

    XLA generates code for each product, which takes 30 ms to compile, and up to four times as long to run. Two kinds of
    products are left to it: those in loops of the program, where a loop may be one kernel, and those of larger operands
    that the program computes, which it fuses into the product.
    """
    (lc, rc), (lb, _) = numbers
    is_possible = b.runs_once and native_calls.are_possible(b, lhs.aval) and native_calls.are_possible(b, rhs.aval)
    if not is_possible or lb or len(lc) != 1 or out.dtype not in _MULTIPLIED_IN_C or lhs.aval.dtype != out.dtype:
        return None
    matrix, contracted, vector = (lhs, lc, rhs) if lhs.aval.size >= rhs.aval.size else (rhs, rc, lhs)
    matrix, (axis,) = _before_transpose(b, matrix, contracted)
    size, terms = matrix.aval.size, matrix.aval.shape[axis]
    are_in_memory = matrix not in b.definitions and (vector not in b.definitions or out.size > 1)
    most = native_calls.LARGEST // out.dtype.itemsize if are_in_memory else _SMALL_MATRIX
    if not 0 < size <= most or terms < _FEW_TERMS:
        return None
    if out.size != size // terms or axis not in (0, matrix.aval.ndim - 1):
        return None
    along_rows = axis == matrix.aval.ndim - 1
    sizes = (out.size, terms, 1) if along_rows else (terms, out.size, 0)
    return native_calls.call(b, native.MATVEC, [out.dtype.itemsize, *sizes], [matrix, vector], [out])[0]


def _before_transpose(b: Builder, matrix: Value, contracted: Axes) -> tuple[Value, Axes]:
    """The matrix that this one is the transpose of, and the axis that is contracted there; itself if it is of none."""
    name, operands, properties = b.definitions.get(matrix, ("", [], ""))
    if name == "stablehlo.transpose" and properties == "permutation = array<i64: 1, 0>":
        return operands[0], (1 - contracted[0],)
    return matrix, contracted


def _by_matrix(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, numbers: Numbers) -> Value | None:
    """The product of two matrices, if backend/c/matmul.c is to compute it.

    XLA's libraries wake threads for small products, which takes them two to six times as long as backend/c/matmul.c.
    oneDNN, which it calls for columns of the left matrix, takes 25 ms to write its kernels when it is called first. An
    operand whose first or last axis is contracted is a matrix, its other axes being merged.
    """
    (lc, rc), (lb, _) = numbers
    is_possible = b.runs_once and native_calls.are_possible(b, lhs.aval) and native_calls.are_possible(b, rhs.aval)
    ndims = lhs.aval.ndim, rhs.aval.ndim
    if not is_possible or lb or len(lc) != 1 or min(ndims) < 2 or out.dtype not in _MULTIPLIED_IN_C:
        return None
    if rhs.aval.ndim == 2:
        rhs, rc = _before_transpose(b, rhs, rc)
    (left,), (right,) = lc, rc
    terms = lhs.aval.shape[left]
    products = out.size * terms
    if lhs.aval.dtype != out.dtype or left not in (0, ndims[0] - 1) or right not in (0, ndims[1] - 1) or not products:
        return None
    rows, columns = lhs.aval.size // terms, rhs.aval.size // terms
    is_divided = rows >= _MANY_ROWS and all(_is_in_memory(b, matrix) for matrix in (lhs, rhs))
    most = _MULTIPLIED_BY_ROWS if is_divided else _MULTIPLIED_BY_ONE_THREAD
    if products > most // out.dtype.itemsize:
        return None
    if right and rows < _FEW_ROWS and products > _FEW_PRODUCTS:
        return None
    strides = *((1, terms) if left else (rows, 1)), *((1, terms) if right else (columns, 1))
    sizes = [out.dtype.itemsize, terms, rows, columns, *strides]
    return native_calls.call(b, native.MATMUL, sizes, [lhs, rhs], [out])[0]


def _is_in_memory(b: Builder, matrix: Value) -> bool:
    """Whether a matrix is an argument of the program, or of a function in it, or has its elements in another order."""
    while matrix in b.definitions:
        name, operands, _ = b.definitions[matrix]
        if name not in ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose"):
            return False
        matrix = operands[0]
    return matrix.name.startswith("%arg") and matrix in b.varied


def _merge_contracted(b: Builder, lhs: Value, rhs: Value, numbers: Numbers) -> tuple[Value, Value, Numbers]:
    """Merges contracted axes that are adjacent in both operands.

    XLA:CPU transposes an operand that has several: the gradient to the weights of a dense layer, [8, 64, 512] and
    [8, 64, 2048] contracted over the first two, takes 26 ms with two axes and 15 ms with one. On several devices, a
    partitioned axis would have to be gathered before it is merged into another.
    """
    (lc, rc), (lb, rb) = numbers
    pairs = sorted(zip(lc, rc))
    runs = [[pairs[0]]]
    for left, right in pairs[1:]:
        if (left - 1, right - 1) == runs[-1][-1]:
            runs[-1].append((left, right))
        else:
            runs.append([(left, right)])

    def merged(x: Value, side: int, batched: Axes) -> tuple[Value, Axes, Axes]:
        dropped = [pair[side] for run in runs for pair in run[1:]]
        sizes = {run[0][side]: math.prod([x.aval.shape[pair[side]] for pair in run]) for run in runs}
        kept = [a for a in range(x.aval.ndim) if a not in dropped]
        shape = [sizes.get(a, x.aval.shape[a]) for a in kept]
        return b.reshape(x, shape), tuple(kept.index(run[0][side]) for run in runs), tuple(map(kept.index, batched))

    if len(runs) == len(pairs):
        return lhs, rhs, numbers
    lhs, lc, lb = merged(lhs, 0, lb)
    rhs, rc, rb = merged(rhs, 1, rb)
    return lhs, rhs, ((lc, rc), (lb, rb))


def _is_small(lhs: ShapedArray, rhs: ShapedArray, out: ShapedArray, numbers: Numbers, runs_once: bool) -> bool:
    """Whether a contraction is faster on XLA:CPU as a sum of products of slices than as a dot.

    A dot runs small matrices one by one through a general routine: 62500 products of 4x4 matrices take 30 ms so and
    0.4 ms as four multiply-adds over whole arrays (2 ms in NumPy); 300000 rotations of 3-vectors 4.7 ms and 0.25 ms;
    10000 of 8x8 0.8 ms and 0.3 ms. From 16x16 on they are level. In loops a sum is better: the loop is one kernel then.
    Elsewhere a dot of a few 8x8 matrices is, which takes 1 us more to run, and 15 ms less to compile.
    """
    if lhs.is_symbolic or rhs.is_symbolic:
        return False
    (lc, rc), (lb, rb) = numbers
    terms = math.prod([lhs.shape[a] for a in lc])
    if not 2 <= terms <= 16 or out.dtype.itemsize < 4 or out.dtype != lhs.dtype or out.size * terms < 1024:
        return False
    columns = math.prod([rhs.shape[a] for a in free_axes(rhs.ndim, rc, rb)])
    rows = math.prod([lhs.shape[a] for a in free_axes(lhs.ndim, lc, lb)])
    if runs_once and min(terms, columns) > 4 and math.prod([lhs.shape[a] for a in lb]) < 16:
        return False
    longer = max(rows, columns)
    return (terms * longer <= 128 and longer <= 16) or (terms <= 8 and columns <= 8)


def _lower_as_sum(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, numbers: Numbers) -> Value:
    """The sum, over the contracted indices, of products of slices broadcast to the result's shape.

    The operands have fusion barriers: fused into the sum, they would be recomputed for each element.
    """
    (lc, rc), (lb, rb) = numbers
    lf, rf = free_axes(lhs.aval.ndim, lc, lb), free_axes(rhs.aval.ndim, rc, rb)
    axes = {"lhs": (*lb, *lf), "rhs": (*rb, *(None for _ in lf), *rf)}
    lhs, rhs = b.fusion_barrier(lhs), b.fusion_barrier(rhs)
    total = None
    for index in np.ndindex(*(lhs.aval.shape[a] for a in lc)):
        left = _broadcast_part(b, lhs, dict(zip(lc, index)), axes["lhs"], out)
        right = _broadcast_part(b, rhs, dict(zip(rc, index)), axes["rhs"], out)
        term = b.op("stablehlo.multiply", [left, right], out)
        total = term if total is None else b.op("stablehlo.add", [total, term], out)
    assert total is not None  # there are at least two terms
    return total


def _broadcast_part(b: Builder, x: Value, fixed: dict[int, int], axes: Sequence[int | None], out: ShapedArray) -> Value:
    """`x` at the `fixed` indices, its axis `axes[i]` becoming axis i of `out`."""
    shape = x.aval.shape
    starts = [fixed.get(a, 0) for a in range(len(shape))]
    limits = [fixed[a] + 1 if a in fixed else n for a, n in enumerate(shape)]
    kept = [a for a in range(len(shape)) if a not in fixed]
    part = b.reshape(b.slice(x, starts, limits), [shape[a] for a in kept])
    order = [axes.index(a) for a in kept]
    if order != sorted(order):
        part = b.transpose(part, sorted(range(len(kept)), key=order.__getitem__))
    return b.broadcast(part, out.shape, sorted(order))
