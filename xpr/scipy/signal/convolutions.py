"""Convolution and correlation of arrays of any number of dimensions.

Of sizes n and k along an axis the full convolution has n + k - 1 elements; a mode is a part of it, and a direct
computation pads so much that no more than that part is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr import numpy as jnp
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.numpy.axes import reduced_axes
from xpr.numpy.promotion import promote_inexact
from xpr.primitives.precision import PrecisionLike
from xpr.primitives.windows.convolution_functions import conv_general_dilated

_MODES = ("full", "same", "valid")


def _operands(name: str, in1: Any, in2: Any, mode: str) -> tuple[Any, Any]:
    in1, in2 = map(jnp.asarray, promote_inexact(in1, in2))
    if mode not in _MODES:
        raise ValueError(f"{name}: mode is 'full', 'same' or 'valid', and not {mode!r}.")
    if in1.ndim != in2.ndim:
        types = f"{in1.aval.str_short()} and {in2.aval.str_short()}"
        raise ValueError(f"{name}: takes arrays of the same number of axes, and got {types}.")
    return in1, in2


def _check_overlap(name: str, longer: Sequence[int], shorter: Sequence[int]) -> bool:
    """Whether the arrays have to be exchanged, for full overlap of the second within the first."""
    if all(n >= k for n, k in zip(longer, shorter)):
        return False
    if all(n <= k for n, k in zip(longer, shorter)):
        return True
    raise ValueError(
        f"{name}: mode='valid' needs one array that is at least as large as the other along each axis, and the shapes "
        f"are {tuple(longer)} and {tuple(shorter)}."
    )


def _direct(name: str, in1: Any, in2: Any, mode: str, precision: PrecisionLike, later: bool = False) -> Any:
    """The convolution of floating arrays; of an even number of elements of `in2` the centre is the earlier one."""
    if not in1.size or not in2.size:
        types = f"{in1.aval.str_short()} and {in2.aval.str_short()}"
        raise ValueError(f"{name}: takes arrays with at least one element each, and got {types}.")
    if mode == "valid" and _check_overlap(name, in1.shape, in2.shape):
        in1, in2 = in2, in1
    if not in1.ndim:
        return in1 * in2
    starts = {"full": lambda k: 0, "same": lambda k: k // 2 if later else (k - 1) // 2, "valid": lambda k: k - 1}
    pads = []
    for k in in2.shape:
        before = k - 1 - starts[mode](k)
        pads.append((before, {"full": k - 1, "same": k - 1 - before, "valid": 0}[mode]))
    ones = (1,) * in1.ndim
    return conv_general_dilated(in1[None, None], jnp.flip(in2)[None, None], ones, pads, precision=precision)[0, 0]


def convolve(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: PrecisionLike = None
) -> Any:  # fmt: skip
    """The convolution of two arrays: the sums over m of in1[m] in2[n - m].

    Args:
      in1: array.
      in2: array of the same number of axes.
      mode: "full" for all sums, "same" for the middle ones, of the shape of `in1`, "valid" for those of full overlap.
      method: "direct", "fft", or "auto", which is direct.
      precision: of products, see `lax.Precision`; None for the default.

    Returns:
      An array of floats.

    Raises:
      ValueError: the shapes don't fit, an array is empty, or there is no such mode or method.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> signal.convolve(jnp.array([[1., 2.]]), jnp.array([[1.], [10.]]))
    Array([[ 1.,  2.],
           [10., 20.]], dtype=float32)
    """
    return _convolved("convolve", in1, in2, mode, method, precision)


def correlate(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: PrecisionLike = None
) -> Any:  # fmt: skip
    """The correlation of two arrays: the convolution of the first with the second reversed and conjugated.

    Args:
      in1: array.
      in2: array of the same number of axes.
      mode: as for `convolve`.
      method: "direct", "fft", or "auto", which is direct.
      precision: of products, see `lax.Precision`; None for the default.

    Returns:
      An array of floats.

    Raises:
      ValueError: the shapes don't fit, an array is empty, or there is no such mode or method.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> signal.correlate(jnp.array([1., 2., 3.]), jnp.array([0., 1.]), mode="valid")
    Array([2., 3.], dtype=float32)
    """
    return _convolved("correlate", in1, jnp.flip(jnp.conj(in2)), mode, method, precision)


def _convolved(name: str, in1: Any, in2: Any, mode: str, method: str, precision: PrecisionLike) -> Any:
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"{name}: method is 'auto', 'direct' or 'fft', and not {method!r}.")
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    return _direct(name, *_operands(name, in1, in2, mode), mode, precision)


def _check_planes(name: str, in1: Any, in2: Any, boundary: str, fillvalue: float) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(
            f"{name}: beyond the edges there are zeros, as with boundary='fill' and fillvalue=0. Pad the array by "
            "jnp.pad for others."
        )
    if in1.ndim != 2:
        raise ValueError(f"{name}: takes matrices, and got {in1.aval.str_short()} and {in2.aval.str_short()}.")


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Any:
    """The convolution of two matrices.

    Args:
      in1: a matrix.
      in2: a matrix.
      mode: as for `convolve`.
      boundary: "fill".
      fillvalue: 0.
      precision: of products, see `lax.Precision`; None for the default.

    Returns:
      A matrix of floats.

    Raises:
      ValueError: an operand is no matrix or is empty, the shapes don't fit, or there is no such mode.
      NotImplementedError: another boundary.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> signal.convolve2d(jnp.eye(2), jnp.ones((2, 2)), mode="same")
    Array([[1., 1.],
           [1., 2.]], dtype=float32)
    """
    in1, in2 = _operands("convolve2d", in1, in2, mode)
    _check_planes("convolve2d", in1, in2, boundary, fillvalue)
    return _direct("convolve2d", in1, in2, mode, precision)


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Any:
    """The correlation of two matrices.

    As in SciPy, and unlike in `correlate`, "same" is centred on the later of two middle elements, and "valid"
    conjugates the first matrix where it is the smaller one.

    Args:
      in1: a matrix.
      in2: a matrix.
      mode: as for `convolve`.
      boundary: "fill".
      fillvalue: 0.
      precision: of products, see `lax.Precision`; None for the default.

    Returns:
      A matrix of floats.

    Raises:
      ValueError: an operand is no matrix or is empty, the shapes don't fit, or there is no such mode.
      NotImplementedError: another boundary.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> signal.correlate2d(jnp.eye(2), jnp.ones((2, 2)), mode="same")
    Array([[2., 1.],
           [1., 1.]], dtype=float32)
    """
    in1, in2 = _operands("correlate2d", in1, in2, mode)
    _check_planes("correlate2d", in1, in2, boundary, fillvalue)
    out = _direct("correlate2d", in1, jnp.flip(jnp.conj(in2)), mode, precision, later=True)
    exchanged = mode == "valid" and _check_overlap("correlate2d", in1.shape, in2.shape)
    return jnp.conj(out) if exchanged else out


def _fast_length(n: Any) -> Any:
    """The least size of at least n that has no prime factors but 2, 3 and 5; a symbolic size as it is.

    Fourier transforms of sizes with large prime factors take several times as long: one of 10999 numbers 319 us, one of
    11250 numbers 83 us.
    """
    if is_symbolic_dim(n):
        return n
    best = 1 << (n - 1).bit_length()
    of_five = 1
    while of_five < best:
        odd = of_five
        while odd < best:
            best = min(best, odd << (-(-n // odd) - 1).bit_length())
            odd *= 3
        of_five *= 5
    return best


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """The convolution of two arrays, by Fourier transforms.

    Args:
      in1: array.
      in2: array of the same number of axes.
      mode: as for `convolve`.
      axes: the axis or axes along which to convolve; along others the arrays broadcast. None for all of them.

    Returns:
      An array of floats.

    Raises:
      ValueError: the shapes don't fit, or there is no such mode.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import signal
    >>> signal.fftconvolve(jnp.array([1., 2., 3.]), jnp.array([0., 1.])).round(4)
    Array([0., 1., 2., 3.], dtype=float32)
    """
    in1, in2 = _operands("fftconvolve", in1, in2, mode)
    ndim = in1.ndim
    along = sorted(range(ndim) if axes is None else reduced_axes(axes, ndim))
    one, two = ([x.shape[i] for i in along] for x in (in1, in2))
    jnp.broadcast_shapes(*([n for i, n in enumerate(x.shape) if i not in along] for x in (in1, in2)))
    if not in1.size or not in2.size:
        return jnp.zeros(0, in1.dtype)
    full = [n + k - 1 for n, k in zip(one, two)]
    if mode == "valid" and _check_overlap("fftconvolve", one, two):
        one, two = two, one
    if all(min(pair) == 1 for pair in zip(one, two)):
        out = in1 * in2
    else:
        padded = [_fast_length(n) for n in full]
        is_complex = jnp.iscomplexobj(in1)
        forward, inverse = (jnp.fft.fftn, jnp.fft.ifftn) if is_complex else (jnp.fft.rfftn, jnp.fft.irfftn)
        out = inverse(forward(in1, padded, along) * forward(in2, padded, along), padded, along)
    sizes = {"full": full, "same": one, "valid": [n - k + 1 for n, k in zip(one, two)]}[mode]
    part = [slice(None)] * ndim
    for axis, size, whole in zip(along, sizes, full):
        part[axis] = slice((whole - size) // 2, (whole - size) // 2 + size)
    return out[tuple(part)].astype(in1.dtype)
