"""Products of matrices of few bits, whose elements share scales in blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import xpr.numpy as jnp
from xpr import dtypes
from xpr.control.custom.custom_vjp import custom_vjp
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.notices import warn
from xpr.primitives.dot import dot_general
from xpr.primitives.elementwise import bitcast_convert_type, convert_element_type
from xpr.primitives.scaled_dot import scaled_in_blocks

__all__ = ["get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"]


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = np.float32
) -> Any:
    """The products of stacks of matrices, the second of them transposed, with scales for blocks of the summed axis.

    Computed in float32.

    Args:
      lhs: [b, m, k].
      rhs: [b, n, k].
      lhs_scales: [b, m, c], one for each k / c elements.
      rhs_scales: [b, n, c].
      preferred_element_type: the dtype of the result.

    Returns:
      [b, m, n].

    Raises:
      ValueError: the shapes don't fit.

    >>> import xpr, xpr.numpy as jnp
    >>> x = jnp.array([[[1.0, 2.0, 3.0]]])
    >>> xpr.nn.scaled_matmul(x, x, jnp.array([[[0.5]]]), jnp.array([[[2.0]]]))
    Array([[[14.]]], dtype=float32)
    """
    avals = [aval_of(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    left, right, of_left, of_right = (aval.shape for aval in avals)
    fit = all(aval.ndim == 3 for aval in avals) and left[::2] == right[::2] and of_left[::2] == of_right[::2]
    if not fit or left[:2] != of_left[:2] or right[:2] != of_right[:2]:
        raise ArgumentError(
            "scaled_matmul: takes [b, m, k], [b, n, k] and scales [b, m, c], [b, n, c], and got "
            f"{', '.join(aval.str_short() for aval in avals)}."
        )
    pairs = ((lhs, lhs_scales), (rhs, rhs_scales))
    a, b = (scaled_in_blocks("scaled_matmul", x, scale, (2,), dtypes.float32) for x, scale in pairs)
    out = dot_general(a, b, (((2,), (2,)), ((0,), (0,))), preferred_element_type=dtypes.float32)
    return convert_element_type(out, dtypes.requested(preferred_element_type))


class BlockScaleConfig(NamedTuple):
    """How an operand is quantized: elements of few bits, and a scale for each block of them along the summed axis.

    Attributes:
      mode: "mxfp8" or "nvfp4".
      block_size: the number of elements that share a scale.
      data_type: the dtype of the elements.
      scale_type: the dtype of the scales.
      global_scale: float32[1], by which all elements are divided first; None for none.
      infer_only: not used.

    >>> import xpr
    >>> xpr.nn.get_scaled_dot_general_config("mxfp8").block_size
    32
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """How `scaled_dot_general` quantizes an operand.

    Args:
      mode: "mxfp8": elements are 8-bit floats, and scales powers of two, one for each block of 32 elements; "nvfp4":
        elements are 4-bit floats, and scales 8-bit floats, one for each block of 16 elements.
      global_scale: float32[1], by which all elements are divided before, for "nvfp4"; None for 1.

    Returns:
      A `BlockScaleConfig`.

    Raises:
      ValueError: there is no such mode.

    >>> import xpr
    >>> xpr.nn.get_scaled_dot_general_config("nvfp4").global_scale
    Array([1.], dtype=float32)
    """
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, dtypes.float8_e4m3fn, dtypes.float8_e8m0fnu, None, False)
    if mode != "nvfp4":
        raise ValueError(f"get_scaled_dot_general_config: the modes are 'mxfp8' and 'nvfp4', and {mode!r} was given.")
    scale = jnp.ones((1,), np.float32) if global_scale is None else global_scale
    return BlockScaleConfig(mode, 16, dtypes.float4_e2m1fn, dtypes.float8_e4m3fn, scale, False)


def scaled_dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: str | None = None,
) -> Any:
    """The contraction of arrays that are quantized first: elements of few bits, whose blocks share scales.

    In reverse mode the cotangent is quantized too, with "mxfp8", if it consists of whole blocks. With "nvfp4" it is
    not, and elements that were clipped get no cotangent.

    Args:
      lhs: an array of floats.
      rhs: an array of floats.
      dimension_numbers: `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`, as for `lax.dot_general`.
      preferred_element_type: the dtype of the result: float32, bfloat16 or float16.
      configs: how `lhs`, `rhs` and the cotangent are quantized, see `get_scaled_dot_general_config`; None for a
        `lax.dot_general` without quantization.
      implementation: must be None.

    Returns:
      An array with the batch axes, and then those of `lhs` and of `rhs` that are not contracted.

    Raises:
      TypeError: `preferred_element_type` is another dtype.
      ValueError: the contracted elements don't make up a whole number of blocks.

    >>> import xpr, xpr.numpy as jnp
    >>> configs = [xpr.nn.get_scaled_dot_general_config("mxfp8")] * 3
    >>> xpr.nn.scaled_dot_general(jnp.ones((2, 32)), jnp.full((3, 32), 0.5), (((1,), (1,)), ((), ())), configs=configs)
    Array([[16., 16., 16.],
           [16., 16., 16.]], dtype=float32)
    """
    if implementation is not None:
        warn("scaled_dot_general: implementation is not read any more.", DeprecationWarning, stacklevel=2)
    if configs is None:
        return dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)
    out = dtypes.requested(preferred_element_type)
    if out not in (dtypes.float32, dtypes.bf16, dtypes.float16):
        raise TypeError(f"scaled_dot_general: the result is of float32, bfloat16 or float16, and not of {out.name}.")
    (lc, rc), (lb, rb) = dimension_numbers
    (left, shape), (right, others) = _as_matrices(lhs, lc, lb), _as_matrices(rhs, rc, rb)
    blocks = tuple([config._replace(global_scale=None) for config in configs])
    result = _quantized_product(left, right, [config.global_scale for config in configs[:2]], blocks, out)
    return jnp.reshape(result, (*shape, *others[len(tuple(lb)) :]))


def _as_matrices(x: Any, contracted: Sequence[int], batched: Sequence[int]) -> tuple[Any, list[int]]:
    """The array as [batch, rows, contracted], and the sizes of the axes that are batched and that are rows."""
    x = jnp.asarray(x)
    rows = [i for i in range(x.ndim) if i not in contracted and i not in batched]
    sizes = [math.prod(x.shape[i] for i in axes) for axes in (batched, rows, contracted)]
    moved = jnp.transpose(x, (*batched, *rows, *contracted))
    return jnp.reshape(moved, sizes), [x.shape[i] for i in (*batched, *rows)]


@partial(custom_vjp, nondiff_argnums=(3, 4))
def _quantized_product(lhs: Any, rhs: Any, global_scales: Any, blocks: Sequence[BlockScaleConfig], out: Any) -> Any:
    return _product(lhs, rhs, blocks[0], blocks[1], global_scales, out)


def _product(
    lhs: Any, rhs: Any, of_lhs: BlockScaleConfig, of_rhs: BlockScaleConfig, global_scales: Any, out: Any
) -> Any:
    """[b, m, n] from [b, m, k] and [b, n, k]."""
    pairs = zip((lhs, rhs), (of_lhs, of_rhs), global_scales)
    (left, left_scales), (right, right_scales) = (_quantized(x, blocks, scale) for x, blocks, scale in pairs)
    result = scaled_matmul(left, right, left_scales, right_scales, np.float32)
    for scale in global_scales:
        result = result if scale is None else result * scale
    return result.astype(out)


def _quantized(x: Any, blocks: BlockScaleConfig, global_scale: Any) -> tuple[Any, Any]:
    """The elements, and the scales of their blocks along the last axis."""
    *shape, k = x.shape
    if not k or k % blocks.block_size:
        raise ArgumentError(
            f"scaled_dot_general: {k} elements are contracted, and {blocks.mode} has blocks of {blocks.block_size}."
        )
    x = x if global_scale is None else x / global_scale
    parts = jnp.reshape(x, (*shape, k // blocks.block_size, blocks.block_size)).astype(np.float32)
    most = float(dtypes.finfo(blocks.data_type).max)
    sizes = jnp.max(jnp.abs(parts), -1) / most
    if blocks.mode == "mxfp8":
        scales = _power_of_two_above(sizes)
    else:
        scales = jnp.minimum(sizes, float(dtypes.finfo(blocks.scale_type).max)).astype(blocks.scale_type)
    scaled = jnp.where(parts == 0, 0, parts / scales.astype(np.float32)[..., None])  # the scale of zeros may be 0
    return jnp.reshape(jnp.clip(scaled, -most, most), x.shape).astype(blocks.data_type), scales


def _power_of_two_above(x: Any) -> Any:
    """The least powers of two that are not below positive numbers, as float8_e8m0fnu."""
    bits = bitcast_convert_type(x, np.uint32)
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    rounds_up = (fraction > 0) & (exponent != 0xFE) & ~((exponent == 0) & (fraction <= 0x400000))
    return bitcast_convert_type((exponent + rounds_up).astype(np.uint8), dtypes.float8_e8m0fnu)


def _product_forward(lhs: Any, rhs: Any, global_scales: Any, blocks: Any, out: Any) -> Any:
    return _quantized_product(lhs, rhs, global_scales, blocks, out), (lhs, rhs, global_scales)


def _product_backward(blocks: Sequence[BlockScaleConfig], out: Any, residuals: Any, ct: Any) -> Any:
    lhs, rhs, global_scales = residuals
    cts = []
    for x, other, of_other, ct_rows in ((lhs, rhs, blocks[1], ct), (rhs, lhs, blocks[0], jnp.swapaxes(ct, 1, 2))):
        columns = jnp.swapaxes(other, 1, 2)
        if blocks[0].mode == "nvfp4" or ct_rows.shape[-1] % blocks[2].block_size:
            cts.append(jnp.matmul(ct_rows, other, preferred_element_type=out).astype(x.dtype))
        else:
            cts.append(_product(ct_rows, columns, blocks[2], of_other, (None, None), out).astype(x.dtype))
    if blocks[2].mode == "nvfp4":
        for i, (x, block, scale) in enumerate(zip((lhs, rhs), blocks, global_scales)):
            greatest = float(dtypes.finfo(block.data_type).max) * float(dtypes.finfo(block.scale_type).max) * scale
            cts[i] = jnp.where(jnp.abs(x) <= greatest, cts[i], 0)
    return *cts, [None if scale is None else jnp.zeros_like(scale) for scale in global_scales]


_quantized_product.defvjp(_product_forward, _product_backward)
