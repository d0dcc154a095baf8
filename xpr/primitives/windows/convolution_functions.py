"""The convolution functions of `xpr.lax`: layouts and paddings by name."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.primitives.dot import dot_general
from xpr.primitives.precision import PrecisionLike, canonical_precision
from xpr.primitives.shapes import rev, transpose
from xpr.primitives.sharding_constraint import decided
from xpr.primitives.windows.convolution import ConvDimensionNumbers, conv_general_dilated_p
from xpr.primitives.windows.sizes import canonical_pads, canonical_steps, dilated

__all__ = [
    "conv", "conv_dimension_numbers", "conv_general_dilated", "conv_general_dilated_local",
    "conv_general_dilated_patches", "conv_transpose", "conv_with_general_padding", "ConvGeneralDilatedDimensionNumbers",
]  # fmt: skip

ConvGeneralDilatedDimensionNumbers = ConvDimensionNumbers | tuple[str, str, str] | None

# -- Layouts


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: ConvGeneralDilatedDimensionNumbers
) -> ConvDimensionNumbers:
    """The positions of the axes of a convolution, from the letters of its layouts.

    Args:
      lhs_shape: the shape of the images, of which only the length matters.
      rhs_shape: the shape of the kernel, of which only the length matters.
      dimension_numbers: three strings, as ("NHWC", "HWIO", "NHWC"): N is the batch, C the features, O and I the
        kernel's features out and in; the other letters are spatial axes. None is ("NCHW", "OIHW", "NCHW").

    Returns:
      `ConvDimensionNumbers`.

    Raises:
      ValueError: a layout has too few or too many letters, or the three don't agree.

    >>> from xpr import lax
    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 16), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    ndim = len(lhs_shape)
    if ndim < 2:
        raise ArgumentError(
            f"conv_general_dilated: images have an axis for the batch and one for features; these are of shape "
            f"{tuple(lhs_shape)}."
        )
    if len(rhs_shape) != ndim:
        raise ArgumentError(
            f"conv_general_dilated lhs and rhs must have the same number of dimensions, and have {ndim} and "
            f"{len(rhs_shape)}: their shapes are {tuple(lhs_shape)} and {tuple(rhs_shape)}."
        )
    if dimension_numbers is None:
        order = tuple(range(ndim))
        return ConvDimensionNumbers(order, order, order)
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    return _parsed(tuple(dimension_numbers), ndim)


def _parsed(layouts: tuple[Any, ...], ndim: int) -> ConvDimensionNumbers:
    ends = ("NC", "OI", "NC")
    space = "".join(c for c in layouts[1] if c not in "OI") if len(layouts) == 3 else ""
    for layout, pair in zip(layouts, ends):
        if len(layouts) != 3 or sorted(layout) != sorted(pair + space) or len(set(layout)) != ndim:
            raise ValueError(
                f"dimension_numbers={layouts!r} for arrays of {ndim} axes: they are three strings of {ndim} different "
                "letters, as ('NHWC', 'HWIO', 'NHWC'): N and C, O and I, N and C, and the same spatial letters in each."
            )
    specs = [tuple(map(layout.index, pair + space)) for layout, pair in zip(layouts, ends)]
    return ConvDimensionNumbers(*specs)


# -- Convolutions


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The convolution of images with a kernel, which is not flipped, summed over features.

    Args:
      lhs: the images: a batch axis, a feature axis, and any number of spatial axes, in the order of
        `dimension_numbers`.
      rhs: the kernel: output features, input features, and as many spatial axes.
      window_strides: the step of the kernel along each spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each spatial axis.
      lhs_dilation: the distance of the images' elements, with zeros between them; above 1 it is a transposed
        convolution. None for 1.
      rhs_dilation: the distance of the kernel's elements; None for 1.
      dimension_numbers: see `conv_dimension_numbers`.
      feature_group_count: the number of groups into which input and output features are split.
      batch_group_count: the number of groups into which the batch and the output features are split.
      precision: see `Precision`.
      preferred_element_type: the dtype to sum in, and of the result.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array in the output layout.

    Raises:
      TypeError: sizes don't match, or a number is no integer.
      ValueError: an argument is not well formed.

    >>> from xpr import lax, numpy as jnp
    >>> images, kernel = jnp.ones((1, 1, 3, 3)), jnp.ones((1, 1, 2, 2))
    >>> lax.conv_general_dilated(images, kernel, (1, 1), "VALID")
    Array([[[[4., 4.],
             [4., 4.]]]], dtype=float32)
    """
    left, right = aval_of(lhs), aval_of(rhs)
    numbers = conv_dimension_numbers(left.shape, right.shape, dimension_numbers)
    rank = left.ndim - 2
    name = "conv_general_dilated"
    strides = canonical_steps(name, "window_strides", window_strides, rank)
    dilation = canonical_steps(name, "lhs_dilation", lhs_dilation, rank)
    kernel_dilation = canonical_steps(name, "rhs_dilation", rhs_dilation, rank)
    if isinstance(padding, str) and any(d != 1 for d in dilation):
        raise ValueError(
            f"conv_general_dilated: padding={padding!r} is not defined for dilated images, lhs_dilation={dilation}. "
            "Give (low, high) pairs, or use lax.conv_transpose."
        )
    images = [left.shape[a] for a in numbers.lhs_spec[2:]]
    window = [dilated(right.shape[a], d) for a, d in zip(numbers.rhs_spec[2:], kernel_dilation)]
    return decided(
        out_sharding,
        "conv_general_dilated",
        lambda: conv_general_dilated_p.bind(
            lhs,
            rhs,
            window_strides=strides,
            padding=canonical_pads(name, padding, images, window, strides),
            lhs_dilation=dilation,
            rhs_dilation=kernel_dilation,
            dimension_numbers=numbers,
            feature_group_count=operator.index(feature_group_count),
            batch_group_count=operator.index(batch_group_count),
            precision=canonical_precision(precision),
            preferred_element_type=None if preferred_element_type is None else dtypes.requested(preferred_element_type),
        ),
    )


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """The convolution of images NCHW with a kernel OIHW; see `conv_general_dilated`.

    Args:
      lhs: the images, NCHW.
      rhs: the kernel, OIHW.
      window_strides: the step of the kernel along each spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each spatial axis.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for that of the operands.

    Returns:
      An array NCHW.

    >>> from xpr import lax, numpy as jnp
    >>> lax.conv(jnp.ones((1, 2, 5, 5)), jnp.ones((3, 2, 3, 3)), (2, 2), "SAME").shape
    (1, 3, 3, 3)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """The convolution of images NCHW with a kernel OIHW, with any padding and dilation; see `conv_general_dilated`.

    Args:
      lhs: the images, NCHW.
      rhs: the kernel, OIHW.
      window_strides: the step of the kernel along each spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each spatial axis.
      lhs_dilation: the distance of the images' elements; None for 1.
      rhs_dilation: the distance of the kernel's elements; None for 1.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for that of the operands.

    Returns:
      An array NCHW.

    >>> from xpr import lax, numpy as jnp
    >>> images, kernel = jnp.ones((1, 1, 3)), jnp.ones((1, 1, 2))
    >>> lax.conv_with_general_padding(images, kernel, (1,), [(1, 0)], None, (2,))
    Array([[[1., 2.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


# -- Transposed convolutions

_CHANNELS_LAST = {
    2: ("NC", "IO", "NC"), 3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"), 5: ("NHWDC", "HWDIO", "NHWDC"),
}  # fmt: skip


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """A convolution that enlarges images by its strides, as the gradient of a strided convolution does.

    Args:
      lhs: the images.
      rhs: the kernel.
      strides: the distance of the images' elements.
      padding: "SAME" for the images' size times the strides, "VALID" for the size that a "VALID" convolution reduces to
        the images'; pairs are added around the dilated images.
      rhs_dilation: the distance of the kernel's elements; None for 1.
      dimension_numbers: see `conv_dimension_numbers`; None for channels last: ("NHWC", "HWIO", "NHWC").
      transpose_kernel: whether to flip the kernel and exchange its input and output features, which makes this the
        gradient of the convolution with that kernel.
      precision: as for `conv_general_dilated`.
      preferred_element_type: as for `conv_general_dilated`.
      use_consistent_padding: whether pairs of `padding` are those of the convolution that this one reverses.

    Returns:
      An array in the output layout.

    Raises:
      ValueError: `dimension_numbers` are needed, or there is no such padding.

    >>> from xpr import lax, numpy as jnp
    >>> lax.conv_transpose(jnp.ones((1, 4, 4, 2)), jnp.ones((3, 3, 2, 5)), (2, 2), "SAME").shape
    (1, 8, 8, 5)
    """
    left, right = aval_of(lhs), aval_of(rhs)
    if dimension_numbers is None and left.ndim not in _CHANNELS_LAST:
        raise ValueError(f"conv_transpose: give dimension_numbers for images of {left.ndim} axes, {left.str_short()}.")
    layouts = _CHANNELS_LAST[left.ndim] if dimension_numbers is None else dimension_numbers
    numbers = conv_dimension_numbers(left.shape, right.shape, layouts)
    dilation = canonical_steps("conv_transpose", "rhs_dilation", rhs_dilation, left.ndim - 2)
    steps = canonical_steps("conv_transpose", "strides", strides, left.ndim - 2)
    window = [dilated(right.shape[a], d) for a, d in zip(numbers.rhs_spec[2:], dilation)]
    if isinstance(padding, str):
        pads: Any = [transposed_pads(w, s, padding) for w, s in zip(window, steps)]
    elif use_consistent_padding:
        pads = [(w - 1 - low, w - 1 - high) for w, (low, high) in zip(window, padding)]
    else:
        pads = padding
    if transpose_kernel:
        rhs = rev(rhs, numbers.rhs_spec[2:])
        out, into = numbers.rhs_spec[:2]
        exchanged = {out: into, into: out}
        rhs = transpose(rhs, [exchanged.get(a, a) for a in range(right.ndim)])
    ones = (1,) * len(steps)
    return conv_general_dilated(
        lhs,
        rhs,
        ones,
        pads,
        steps,
        dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def transposed_pads(window: int, stride: int, padding: str) -> tuple[int, int]:
    """The padding of dilated images after which as many windows fit as "SAME" or "VALID" promise."""
    name = padding.upper()
    if name not in ("SAME", "VALID"):
        raise ValueError(f"conv_transpose: padding={padding!r} must be 'SAME', 'VALID', or (low, high) for each axis.")
    if name == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
    else:
        total = window + stride - 2 + max(window - stride, 0)
        low = window - 1
    return low, total - low


# -- Windows as features


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """Every window of the images as features: [n, c, space] becomes [n, c * prod(filter_shape), windows].

    The features are ordered by channel, then by position in the window. Of the kernel's part of `dimension_numbers`
    only the order of spatial letters is used.

    Args:
      lhs: the images.
      filter_shape: the sizes of the window.
      window_strides: the step of the window along each spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each spatial axis.
      lhs_dilation: the distance of the images' elements; None for 1.
      rhs_dilation: the distance of the window's elements; None for 1.
      dimension_numbers: see `conv_dimension_numbers`.
      precision: of products, see `lax.Precision`; None for the default.
      preferred_element_type: the dtype to accumulate in and of the result; None for that of the operands.

    Returns:
      An array in the output layout.

    Raises:
      ValueError: the window has not as many axes as the images have spatial ones.

    >>> from xpr import lax, numpy as jnp
    >>> lax.conv_general_dilated_patches(jnp.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    aval = aval_of(lhs)
    window = tuple(map(operator.index, filter_shape))
    if aval.ndim != len(window) + 2:
        raise ValueError(
            f"conv_general_dilated_patches: a window of shape {window} slides over {len(window)} axes besides those of "
            f"batch and features, and the images are {aval.str_short()}."
        )
    numbers = conv_dimension_numbers(aval.shape, (1,) * aval.ndim, dimension_numbers)
    channels, size = aval.shape[numbers.lhs_spec[1]], int(np.prod(window))
    # Output k of each channel is element k of its window.
    picks = np.eye(size, dtype=aval.dtype).reshape(size, 1, *window)
    kernel = np.tile(picks, (channels, 1, *(1 for _ in window))).transpose(np.argsort(numbers.rhs_spec))
    return conv_general_dilated(
        lhs,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=channels,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Any:
    """A convolution with a kernel of its own at each output position: a locally connected layer.

    Args:
      lhs: the images.
      rhs: the kernels, in the kernel's layout: their spatial axes are those of the result, and their axis of features
        in has an element for each channel and position in the window, in the order of `conv_general_dilated_patches`.
      window_strides: the step of the window along each spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each spatial axis.
      filter_shape: the sizes of the window.
      lhs_dilation: the distance of the images' elements; None for 1.
      rhs_dilation: the distance of the window's elements; None for 1.
      dimension_numbers: see `conv_dimension_numbers`.
      precision: of products, see `lax.Precision`; None for the default.

    Returns:
      An array in the output layout.

    Raises:
      ValueError: shapes don't fit.

    >>> from xpr import lax, numpy as jnp
    >>> images, kernels = jnp.arange(4.0).reshape(1, 1, 4), jnp.arange(6.0).reshape(1, 2, 3)
    >>> lax.conv_general_dilated_local(images, kernels, (1,), "VALID", (2,))
    Array([[[ 3.,  9., 19.]]], dtype=float32)
    """
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision
    )
    numbers = conv_dimension_numbers(aval_of(lhs).shape, aval_of(rhs).shape, dimension_numbers)
    (batch, features, *spatial), (_, weights, *kernel_spatial) = numbers.out_spec, numbers.rhs_spec
    contracted = (weights,), (features,)
    out = dot_general(rhs, patches, (contracted, (kernel_spatial, spatial)), precision)  # spatial, features out, batch
    return transpose(out, np.argsort([*spatial, features, batch]).tolist())
