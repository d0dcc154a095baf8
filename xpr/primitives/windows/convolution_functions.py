"""Convolutions as users call them: by names of layouts and paddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.errors import ArgumentError
from xpr.primitives.precision import PrecisionLike, canonical_precision
from xpr.primitives.shapes import rev, transpose
from xpr.primitives.windows.convolution import ConvDimensionNumbers, conv_general_dilated_p
from xpr.primitives.windows.sizes import canonical_pads, canonical_steps, dilated

ConvGeneralDilatedDimensionNumbers = ConvDimensionNumbers | tuple[str, str, str] | None

# -- Layouts


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: ConvGeneralDilatedDimensionNumbers
) -> ConvDimensionNumbers:
    """Where the axes of a convolution are, from the names of its layouts.

    Args:
      lhs_shape, rhs_shape: of the images and the kernel; only their lengths matter.
      dimension_numbers: three strings, as ("NHWC", "HWIO", "NHWC"): N is the batch, C the features, O and I the
        kernel's features out and in; the other letters are spatial axes. None is ("NCHW", "OIHW", "NCHW").
    Raises:
      ValueError: a layout has too few or too many letters, or the three don't agree.

    >>> from xpr import lax
    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 16), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    ndim = len(lhs_shape)
    if len(rhs_shape) != ndim:
        raise ArgumentError(
            f"Images and kernel must have the same number of axes; their shapes are {tuple(lhs_shape)} and "
            f"{tuple(rhs_shape)}."
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
) -> Any:
    """A kernel slid over images, without turning it, and summed over their features.

    Args:
      lhs: the images: a batch, features, and any number of spatial axes, ordered as `dimension_numbers` say.
      rhs: the kernel: features out, features in, and as many spatial axes.
      window_strides: how far the kernel moves, along each spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each spatial axis.
      lhs_dilation: entries of the images are put so far apart, with zeros between; above 1 it is a transposed
        convolution.
      rhs_dilation: the kernel's entries are put so far apart.
      dimension_numbers: see `conv_dimension_numbers`.
      feature_group_count: the features, in and out, are cut into so many groups that don't see each other.
      batch_group_count: the batch, and the features out, are cut so instead.
      precision: see `Precision`.
      preferred_element_type: the dtype to sum in, and of the result.
    Raises:
      TypeError: sizes don't match.
      ValueError: what is asked for is not well formed.

    >>> from xpr import lax, numpy as jnp
    >>> images, kernel = jnp.ones((1, 1, 3, 3)), jnp.ones((1, 1, 2, 2))
    >>> lax.conv_general_dilated(images, kernel, (1, 1), "VALID")
    Array([[[[4., 4.],
             [4., 4.]]]], dtype=float32)
    """
    left, right = aval_of(lhs), aval_of(rhs)
    numbers = conv_dimension_numbers(left.shape, right.shape, dimension_numbers)
    rank = left.ndim - 2
    who = "conv_general_dilated"
    strides = canonical_steps(who, "window_strides", window_strides, rank)
    spread = canonical_steps(who, "lhs_dilation", lhs_dilation, rank)
    kernel_spread = canonical_steps(who, "rhs_dilation", rhs_dilation, rank)
    if isinstance(padding, str) and any(d != 1 for d in spread):
        raise ValueError(
            f"conv_general_dilated: padding={padding!r} is not defined for dilated images, lhs_dilation={spread}. "
            "Give (low, high) pairs, or use lax.conv_transpose."
        )
    images = [left.shape[a] for a in numbers.lhs_spec[2:]]
    window = [dilated(right.shape[a], d) for a, d in zip(numbers.rhs_spec[2:], kernel_spread)]
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=canonical_pads(who, padding, images, window, strides),
        lhs_dilation=spread,
        rhs_dilation=kernel_spread,
        dimension_numbers=numbers,
        feature_group_count=int(feature_group_count),
        batch_group_count=int(batch_group_count),
        precision=canonical_precision(precision),
        preferred_element_type=None if preferred_element_type is None else dtypes.canonical(preferred_element_type),
    )


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """`conv_general_dilated` of images NCHW and a kernel OIHW.

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
    """`conv_general_dilated` of images NCHW and a kernel OIHW, with any padding and dilation.

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
      lhs, rhs, rhs_dilation, precision, preferred_element_type: as for `conv_general_dilated`.
      strides: the entries of the images are put so far apart.
      padding: "SAME" gives the images' size times the strides, "VALID" what a "VALID" convolution makes the images of.
        Pairs are added around the spread images; with `use_consistent_padding` they are instead those of the
        convolution that this one undoes.
      dimension_numbers: the channels are last where none are given: ("NHWC", "HWIO", "NHWC").
      transpose_kernel: turns the kernel and exchanges its features in and out, which makes this the gradient of
        the convolution with that kernel.

    >>> from xpr import lax, numpy as jnp
    >>> lax.conv_transpose(jnp.ones((1, 4, 4, 2)), jnp.ones((3, 3, 2, 5)), (2, 2), "SAME").shape
    (1, 8, 8, 5)
    """
    left, right = aval_of(lhs), aval_of(rhs)
    if dimension_numbers is None and left.ndim not in _CHANNELS_LAST:
        raise ValueError(f"conv_transpose: give dimension_numbers for images of {left.ndim} axes, {left.str_short()}.")
    layouts = _CHANNELS_LAST[left.ndim] if dimension_numbers is None else dimension_numbers
    numbers = conv_dimension_numbers(left.shape, right.shape, layouts)
    spread = canonical_steps("conv_transpose", "rhs_dilation", rhs_dilation, left.ndim - 2)
    steps = canonical_steps("conv_transpose", "strides", strides, left.ndim - 2)
    window = [dilated(right.shape[a], d) for a, d in zip(numbers.rhs_spec[2:], spread)]
    if isinstance(padding, str):
        pads: Any = [_transposed_pads(w, s, padding) for w, s in zip(window, steps)]
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
        lhs, rhs, ones, pads, steps, spread, numbers, precision=precision, preferred_element_type=preferred_element_type
    )


def _transposed_pads(window: int, stride: int, padding: str) -> tuple[int, int]:
    """The padding of spread images after which as many windows fit as "SAME" or "VALID" promise."""
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
    """Every window of the images, its entries as features: [n, c, space] gives [n, c * prod(filter_shape), windows].

    The features are ordered by channel, then by place in the window. The kernel's part of `dimension_numbers` is not
    looked at but for the order of its spatial letters.

    >>> from xpr import lax, numpy as jnp
    >>> lax.conv_general_dilated_patches(jnp.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    aval = aval_of(lhs)
    window = tuple(map(int, filter_shape))
    if aval.ndim != len(window) + 2:
        raise ValueError(
            f"conv_general_dilated_patches: a window of shape {window} slides over {len(window)} axes beside those of "
            f"batch and features, and the images are {aval.str_short()}."
        )
    numbers = conv_dimension_numbers(aval.shape, (1,) * aval.ndim, dimension_numbers)
    channels, size = aval.shape[numbers.lhs_spec[1]], int(np.prod(window))
    # Output k of each channel is entry k of its window.
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
