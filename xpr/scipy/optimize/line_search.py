"""Line search for the strong Wolfe conditions.

Nocedal and Wright, Numerical Optimization, 2006, algorithms 3.5 and 3.6. Near a minimum, where values differ by their
rounding alone, slopes decide, as in W. W. Hager and H. Zhang, A new conjugate gradient method with guaranteed descent
and an efficient line search, SIAM J. Optim., 2005, equation 4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xpr import numpy as jnp
from xpr.control.cond.function import cond
from xpr.control.while_.function import while_loop
from xpr.dtypes import finfo

_DECREASE, _CURVATURE = 1e-4, 0.9


class Point(NamedTuple):
    """A point of the line: the step, the value and the slope there, and the gradient."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


def line_search(on_line: Callable[[Any], Point], start: Point, decrease: Any, most: int) -> tuple[Point, Any, Any]:
    """A point that satisfies the strong Wolfe conditions, whether there is one, and how many were tried.

    The first step is the one after which a parabola would have decreased by `decrease`, if that is less than
    1 (equation 3.60). At most `most` steps bracket an interval, and as many narrow it.
    """

    rounding = 2 * finfo(start.value.dtype).eps * jnp.abs(start.value)

    def good(point: Point) -> Any:
        return jnp.abs(point.slope) <= -_CURVATURE * start.slope

    def as_low(point: Point) -> Any:
        flatter = point.gradient @ point.gradient < start.gradient @ start.gradient
        return (point.value <= start.value + rounding) & good(point) & flatter

    def too_high(point: Point, low: Point) -> Any:
        limit = start.value + _DECREASE * point.step * start.slope
        high = (point.value > limit) | (point.value >= low.value) | jnp.isnan(point.value)
        return high & ~as_low(point)

    # Bracketing: steps that double until one is good, or there must be one between it and the step before.

    def searching(state: Any) -> Any:
        count, _, _, bracketed, satisfied = state
        return ~bracketed & ~satisfied & (count < most)

    def lengthen(state: Any) -> Any:
        count, before, point, _, _ = state
        high = too_high(point, before) & ((count > 1) | too_high(point, start))
        satisfied = ~high & good(point)
        rises = ~high & ~satisfied & (point.slope >= 0)
        low, other = _chosen(rises, (point, before), (before, point))

        def further(_: Any) -> Any:
            return point, on_line(2 * point.step)

        ahead = cond(high | satisfied | rises, lambda _: (low, other), further, None)
        return (
            jnp.where(high | satisfied | rises, count, count + 1),
            *_chosen(satisfied, (before, point), ahead),
            high | rises,
            satisfied,
        )

    expected = -2 * 1.01 * decrease / start.slope
    step = jnp.where((expected > 0) & (expected < 1), expected, jnp.ones_like(start.value))
    first = (jnp.asarray(1), start, on_line(step), jnp.bool_(False), jnp.bool_(False))
    count, low, high, bracketed, satisfied = while_loop(searching, lengthen, first)

    # Zooming: between `low`, the lowest point that decreases enough, and `high`.

    def between(state: Any) -> Any:
        count, _, _, satisfied, _ = state
        return bracketed & ~satisfied & (count < most)

    def narrow(state: Any) -> Any:
        count, low, high, _, _ = state
        point = on_line(_interpolated(low, high))
        worse = too_high(point, low)
        satisfied = ~worse & good(point)
        turned = ~worse & (point.slope * (high.step - low.step) >= 0)
        new_high = _chosen(worse, point, _chosen(turned, low, high))
        return count + 1, _chosen(worse, low, point), new_high, satisfied, point

    zoomed = while_loop(between, narrow, (jnp.asarray(0), low, high, jnp.bool_(False), low))
    more, lowest, _, inside, _ = zoomed
    point = _chosen(satisfied, high, lowest)
    lower = bracketed & (lowest.step > 0) & (lowest.value < start.value)
    return point, satisfied | inside | lower, count + more


def _chosen(flag: Any, x: Any, y: Any) -> Any:
    """`x` where a flag is set, else `y`; points or tuples of them."""
    if isinstance(x, tuple):
        parts = [_chosen(flag, a, b) for a, b in zip(x, y)]
        return type(x)(*parts) if isinstance(x, Point) else tuple(parts)
    return jnp.where(flag, x, y)


def _interpolated(low: Point, high: Point) -> Any:
    """The minimum of the cubic through two points with their slopes (equation 3.59), or else the middle."""
    width = high.step - low.step
    d1 = low.slope + high.slope - 3 * (low.value - high.value) / jnp.where(width == 0, 1, -width)
    square = d1**2 - low.slope * high.slope
    d2 = jnp.sign(width) * jnp.sqrt(jnp.where(square > 0, square, 0))
    bottom = high.slope - low.slope + 2 * d2
    fraction = 1 - (high.slope + d2 - d1) / jnp.where(bottom == 0, 1, bottom)
    usable = (square > 0) & (bottom != 0) & (fraction > 0.1) & (fraction < 0.9)
    return low.step + width * jnp.where(usable, fraction, 0.5)
