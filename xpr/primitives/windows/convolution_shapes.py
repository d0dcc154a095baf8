"""Shapes of the results of convolutions, and the axes of layouts, without a convolution."""

from __future__ import annotations

from collections.abc import Sequence

from xpr.errors import ArgumentError
from xpr.primitives.windows.convolution_functions import conv_dimension_numbers, transposed_pads
from xpr.primitives.windows.sizes import canonical_pads, count_windows

__all__ = [
    "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose_shape_tuple",
]  # fmt: skip

Shape = tuple[int, ...]
Layouts = tuple[str, str, str]


def conv_general_permutations(dimension_numbers: Layouts) -> tuple[Shape, Shape, Shape]:
    """Where layouts have the axes of images, kernel and result.

    Args:
      dimension_numbers: three strings, as ("NHWC", "HWIO", "NHWC").

    Returns:
      For each the positions of batch and features (of the kernel: of features out and in), then of the spatial axes.

    Raises:
      ValueError: the layouts don't agree.

    >>> from xpr import lax
    >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    zeros = (0,) * len(dimension_numbers[0])
    lhs, rhs, out = conv_dimension_numbers(zeros, zeros, dimension_numbers)
    return tuple(lhs), tuple(rhs), tuple(out)


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = 1,
) -> Shape:
    """The shape of a convolution's result; batch and features, or features out and in, come before the spatial axes.

    Args:
      lhs_shape: of the images.
      rhs_shape: of the kernel.
      strides: one for each spatial axis.
      pads: a padding by name, or a (low, high) pair for each.
      batch_group_count: into how many groups the batch is split.

    Returns:
      A shape.

    Raises:
      ValueError: there are not as many strides or pads as spatial axes, or a pad takes more than there is.

    >>> from xpr import lax
    >>> lax.conv_shape_tuple((2, 3, 10), (8, 3, 4), (2,), "VALID")
    (2, 8, 4)
    """
    batch, _, *space = lhs_shape
    features, _, *window = rhs_shape
    pairs = canonical_pads("conv_shape_tuple", pads, space, window, strides)
    if len(strides) != len(space) or len(window) != len(space):
        raise ArgumentError(
            f"conv_shape_tuple: images {tuple(lhs_shape)}, kernel {tuple(rhs_shape)} and strides {tuple(strides)} have "
            "not as many spatial axes."
        )
    if any(n + sum(pair) < 0 for n, pair in zip(space, pairs)):
        raise ValueError(f"conv_shape_tuple: pads {pairs} take more than the images {tuple(lhs_shape)} have.")
    sizes = [count_windows(n, w, s, pair) for n, w, s, pair in zip(space, window, strides, pairs)]
    return (batch // batch_group_count, features, *sizes)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Layouts,
) -> Shape:
    """The shape of the result of a convolution in given layouts.

    Args:
      lhs_shape: of the images.
      rhs_shape: of the kernel.
      window_strides: one for each spatial axis.
      padding: by name, or a (low, high) pair for each.
      dimension_numbers: three strings, as ("NHWC", "HWIO", "NHWC").

    Returns:
      A shape.

    Raises:
      ValueError: layouts, strides or pads don't fit the shapes.

    >>> from xpr import lax
    >>> lax.conv_general_shape_tuple((2, 10, 10, 3), (4, 4, 3, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (2, 5, 5, 8)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple(_taken(lhs_shape, lhs), _taken(rhs_shape, rhs), window_strides, padding)
    return _placed(shape, out)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Layouts,
) -> Shape:
    """The shape of the result of a transposed convolution, which strides make larger.

    Args:
      lhs_shape: of the images.
      rhs_shape: of the kernel.
      window_strides: one for each spatial axis.
      padding: by name, or a (low, high) pair for each.
      dimension_numbers: three strings, as ("NHWC", "HWIO", "NHWC").

    Returns:
      A shape.

    Raises:
      ValueError: the layouts don't agree.

    >>> from xpr import lax
    >>> lax.conv_transpose_shape_tuple((2, 5, 3), (4, 8, 3), (2,), "SAME", ("NHC", "HOI", "NHC"))
    (2, 10, 8)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    batch, _, *space = _taken(lhs_shape, lhs)
    features, _, *window = _taken(rhs_shape, rhs)
    if isinstance(padding, str):
        pads = [transposed_pads(w, s, padding) for w, s in zip(window, window_strides)]
    else:
        pads = list(padding)
    sizes = [(n - 1) * s - w + 2 + sum(pair) for n, w, s, pair in zip(space, window, window_strides, pads)]
    return _placed((batch, features, *sizes), out)


def _taken(shape: Sequence[int], order: Shape) -> Shape:
    return tuple(shape[axis] for axis in order)


def _placed(shape: Shape, order: Shape) -> Shape:
    return tuple(shape[order.index(axis)] for axis in range(len(order)))
