"""einsum: products summed over indices, in Einstein's notation.

Subscripts, shapes and `optimize` determine a program, a list of steps, which is computed once. A step reads one or two
of the values so far (the operands come first) and appends one. Later calls only run the steps. Three operands or more
are contracted pairwise, in the order that opt_einsum estimates to be cheapest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.numpy.axes import no_out
from xpr.numpy.creation import asarray
from xpr.numpy.matrices import diagonal
from xpr.numpy.promotion import convert, promote_dtypes
from xpr.primitives.dot import contract
from xpr.primitives.dot_algorithms import canonical_dot_precision
from xpr.primitives.elementwise import mul
from xpr.primitives.precision import PrecisionLike
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import broadcast_in_dim, reduce_sum, squeeze, transpose
from xpr.primitives.sharding_constraint import decided

__all__ = ["einsum", "einsum_path"]

Labels = tuple[Any, ...]
Shape = tuple[int, ...]
Step = tuple[tuple[int, ...], Callable[..., Any]]  # which values are read, and what is done to them


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: str | bool | Sequence[tuple[int, ...]] = "auto",
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    _dot_general: Callable[..., Any] | None = None,
    out_sharding: Any = None,
) -> Any:
    """Products of arrays summed over indices, in Einstein's notation.

    Args:
      subscripts: a letter (or digit) for each axis of each operand, and those of the result: "ij,jk->ik". A letter that
        is not in the result is summed over; one that stands twice in an operand takes its diagonal. Without "->" the
        result has the letters that stand once, in alphabetical order. "..." stands for any axes, which broadcast.
        Instead of a string, operands may be followed by lists of integers: einsum(x, [0, 1], y, [1, 2], [0, 2]).
      *operands: arrays.
      out: must be None; arrays are immutable.
      optimize: how opt_einsum chooses the order of contractions: "auto", "optimal", "greedy", ..., or True; False for
        left to right; a list for an order, as `einsum_path` returns it.
      precision: see `lax.Precision`.
      preferred_element_type: the dtype to sum in, and of the result.
      _dot_general: a function to contract two arrays with, with the arguments of `lax.dot_general`; None for that.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array with the axes of the result's subscripts, of the dtype to which the operands promote.

    Raises:
      ValueError: the subscripts are not well formed or don't fit the operands.

    >>> import xpr.numpy as jnp
    >>> jnp.einsum("ij,j->i", jnp.ones((2, 3)), jnp.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    if out_sharding is not None:
        return decided(
            out_sharding,
            "einsum",
            lambda: einsum(
                subscripts,
                *operands,
                out=out,
                optimize=optimize,
                precision=precision,
                preferred_element_type=preferred_element_type,
                _dot_general=_dot_general,
            ),
        )
    no_out("einsum", out)
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    if not operands:
        raise ValueError(f"einsum: {subscripts!r} has subscripts for operands, and none were given.")
    values: list[Any] = promote_dtypes(*operands)
    if len(values) == 1:
        values = [asarray(values[0])]
    shapes = tuple([aval_of(x).shape for x in values])
    contraction_order = optimize
    if not isinstance(optimize, (str, bool)):
        contraction_order = tuple([step if isinstance(step, str) else tuple(step) for step in optimize])
    dtype = aval_of(values[0]).dtype if preferred_element_type is None else dtypes.requested(preferred_element_type)
    params = {
        "precision": canonical_dot_precision(precision), "preferred_element_type": dtype, "by": _dot_general,
    }  # fmt: skip
    steps, position = _program(subscripts, shapes, contraction_order)
    for positions, run in steps:
        values.append(run(params, *[values[i] for i in positions]))
    return values[position] if preferred_element_type is None else convert(values[position], dtype)


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: str | bool | Sequence[tuple[int, ...]] = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """The order in which `einsum` would contract the operands, and opt_einsum's description of it.

    Args:
      subscripts: as for `einsum`.
      *operands: as for `einsum`.
      optimize: as for `einsum`.

    Returns:
      `(list of contractions, text)`.

    >>> import xpr.numpy as jnp
    >>> a, b = jnp.ones((100, 100)), jnp.ones(100)
    >>> path, info = jnp.einsum_path("ij,jk,k->i", a, a, b)
    >>> path
    [(1, 2), (0, 1)]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    shapes = [_typical(aval_of(x).shape) for x in promote_dtypes(*operands)]
    return _opt_einsum().contract_path(subscripts, *shapes, shapes=True, optimize=_optimizer(optimize))


def _optimizer(optimize: Any) -> Any:
    return "optimal" if optimize is True else optimize


def _opt_einsum() -> Any:
    import opt_einsum

    return opt_einsum


# -- Reading subscripts


def _from_lists(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Arguments with a list of labels after each operand, converted to subscripts and operands."""
    if len(args) == 1:
        raise TypeError("einsum: an operand has no list of labels. Write einsum(x, [0, 1]) or einsum('ij', x).")
    pairs = len(args) // 2
    operands = args[0 : 2 * pairs : 2]
    lists = [list(labels) for labels in args[1 : 2 * pairs : 2]]
    result_labels = [list(args[-1])] if len(args) % 2 else []
    known = {label for labels in (*lists, *result_labels) for label in labels if label is not Ellipsis}
    letters = {label: chr(ord("a") + i) if i < 26 else chr(192 + i) for i, label in enumerate(sorted(known))}
    texts = [
        "".join("..." if label is Ellipsis else letters[label] for label in labels)
        for labels in (*lists, *result_labels)
    ]
    return ",".join(texts[: len(lists)]) + ("->" + texts[-1] if result_labels else ""), operands


def _read(subscripts: str, shapes: tuple[Shape, ...]) -> tuple[list[Labels], Labels]:
    """The labels of the axes of the operands and the result; those of "..." are numbers, 0 for the last axis."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    texts = inputs.split(",")
    if len(texts) != len(shapes):
        raise ValueError(
            f"einsum: {subscripts!r} has subscripts for {len(texts)} operands, and {len(shapes)} were given."
        )
    terms = [_term(text, shape, subscripts) for text, shape in zip(texts, shapes)]
    broadcast_labels = sorted({label for term in terms for label in term if isinstance(label, int)}, reverse=True)
    letters = [label for term in terms for label in term if isinstance(label, str)]
    if not arrow:
        return terms, (*broadcast_labels, *sorted(c for c in set(letters) if letters.count(c) == 1))
    head, dots, tail = output.partition("...")
    out: Labels = (*head, *(broadcast_labels if dots else ()), *tail)
    unknown = [c for c in out if c not in letters and c not in broadcast_labels]
    if unknown or len(set(out)) != len(out):
        raise ValueError(
            f"einsum: in {subscripts!r} each letter of the result must stand in some operand, and once in the result."
        )
    return terms, out


def _term(text: str, shape: Shape, subscripts: str) -> Labels:
    head, dots, tail = text.partition("...")
    extra = len(shape) - len(head) - len(tail)
    if extra < 0 or (extra and not dots) or not ("a" + head + tail).isalnum():
        raise ValueError(
            f"einsum: in {subscripts!r} the subscripts {text!r} don't fit an operand of shape {shape}: they are a "
            "letter (or digit) for each axis, where '...' stands for any number of them."
        )
    return (*head, *range(extra - 1, -1, -1), *tail)


def _sizes(subscripts: str, terms: Sequence[Labels], shapes: Sequence[Shape]) -> dict[Any, int]:
    """The size of each label; axes of size 1 broadcast."""
    sizes: dict[Any, int] = {}
    for term, shape in zip(terms, shapes):
        for label, n in zip(term, shape):
            known = sizes.setdefault(label, n)
            if known == 1:
                sizes[label] = n
            elif n not in (1, known):
                described = f"index {label!r}" if isinstance(label, str) else "an axis of '...'"
                listed = ", ".join(map(str, shapes))
                raise ValueError(
                    f"einsum: in {subscripts!r} {described} has sizes {known} and {n}; shapes are {listed}."
                )
    return sizes


# -- The program


@lru_cache(maxsize=2048)
def _program(subscripts: str, shapes: tuple[Shape, ...], optimize: Any) -> tuple[tuple[Step, ...], int]:
    """The steps that compute the result from operands of these shapes, and the result's position among the values."""
    terms, out = _read(subscripts, shapes)
    writer = _Writer(terms, shapes, _sizes(subscripts, terms, shapes))
    live = list(range(len(terms)))
    for positions in _order(subscripts, shapes, len(terms), optimize):
        taken = [live[i] for i in positions]
        live = [position for i, position in enumerate(live) if i not in positions]
        while len(taken) > 1:
            elsewhere = {*out, *(label for position in (*live, *taken[2:]) for label in writer.labels[position])}
            taken[:2] = [writer.multiply(taken[0], taken[1], elsewhere, out)]
        live.append(taken[0])
    if len(live) != 1:
        raise ValueError(f"einsum: optimize={optimize} leaves {len(live)} operands that are not contracted.")
    position = writer.arrange(writer.simplify(live[0], set(out)), out)
    return tuple(writer.steps), position


def _typical(shape: Shape) -> Shape:
    """The shape by which the order of contractions is chosen, which has a number for each symbolic dimension."""
    return tuple([64 if is_symbolic_dim(n) else n for n in shape])


def _order(subscripts: str, shapes: tuple[Shape, ...], count: int, optimize: Any) -> Sequence[tuple[int, ...]]:
    """The operands that each contraction removes from the list; its result is appended."""
    if isinstance(optimize, tuple):
        return [step for step in optimize if not isinstance(step, str)]
    if count <= 2 or optimize is False:
        return [(0, 1), *((n, 0) for n in range(count - 2, 0, -1))] if count > 1 else []
    shapes = tuple(map(_typical, shapes))
    return _opt_einsum().contract_path(subscripts, *shapes, shapes=True, optimize=_optimizer(optimize))[0]


class _Writer:
    """Builds a program; `labels` and `shapes` are those of the operands and of the result of each step."""

    def __init__(self, labels: Sequence[Labels], shapes: Sequence[Shape], sizes: dict[Any, int]):
        self.labels, self.shapes, self.sizes = list(labels), list(shapes), sizes
        self.steps: list[Step] = []

    def write(
        self, run: Callable[..., Any], positions: tuple[int, ...], labels: Labels, shape: Shape | None = None
    ) -> int:
        self.steps.append((positions, run))
        self.labels.append(labels)
        self.shapes.append(tuple([self.sizes[label] for label in labels]) if shape is None else shape)
        return len(self.labels) - 1

    def simplify(self, position: int, needed: set[Any]) -> int:
        """Takes diagonals, drops axes of size 1 that broadcast, and sums over axes whose labels are not needed."""
        labels = self.labels[position]
        for label in labels:
            while self.labels[position].count(label) > 1:
                position = self._diagonal(position, label)
        labels, shape = self.labels[position], self.shapes[position]
        broadcast = [i for i, (label, n) in enumerate(zip(labels, shape)) if n == 1 != self.sizes[label]]
        if broadcast:
            position = self._without(position, broadcast, lambda params, x: squeeze(x, broadcast))
        summed = [i for i, label in enumerate(self.labels[position]) if label not in needed]
        return self._without(position, summed, lambda params, x: _sum(x, summed)) if summed else position

    def _without(self, position: int, axes: list[int], run: Callable[..., Any]) -> int:
        kept = [i for i in range(len(self.labels[position])) if i not in axes]
        labels, shape = (tuple(values[i] for i in kept) for values in (self.labels[position], self.shapes[position]))
        return self.write(run, (position,), labels, shape)

    def _diagonal(self, position: int, label: Any) -> int:
        labels, shape = self.labels[position], self.shapes[position]
        first = labels.index(label)
        second = labels.index(label, first + 1)
        kept = [i for i in range(len(labels)) if i not in (first, second)]
        if shape[first] != shape[second]:  # one of them is 1 and broadcasts
            removed = first if shape[first] == 1 else second
            return self._without(position, [removed], lambda params, x: squeeze(x, (removed,)))
        return self.write(
            lambda params, x: diagonal(x, 0, first, second), (position,), (*(labels[i] for i in kept), label),
            (*(shape[i] for i in kept), shape[first]),
        )  # fmt: skip

    def multiply(self, left: int, right: int, needed: set[Any], out: Labels) -> int:
        """The product of two operands, summed over labels that neither the result nor another operand needs."""
        left = self.simplify(left, needed | {*self.labels[right]})
        right = self.simplify(right, needed | {*self.labels[left]})
        x, y = self.labels[left], self.labels[right]
        kept = (
            *(label for label in x if label in y and label in needed),
            *(label for label in x if label not in y),
            *(label for label in y if label not in x),
        )
        order = out if set(kept) == set(out) else kept
        if set(x) & set(y) <= needed:
            shape = tuple([self.sizes[label] for label in order])
            left, right = self.arrange(left, order), self.arrange(right, order)
            axes = [tuple(map(order.index, self.labels[position])) for position in (left, right)]
            return self.write(
                lambda params, a, b: mul(*(broadcast_in_dim(v, shape, at) for v, at in zip((a, b), axes))),
                (left, right), order,
            )  # fmt: skip
        return self.write(lambda params, a, b: contract(a, x, b, y, order, **params), (left, right), order)

    def arrange(self, position: int, order: Labels) -> int:
        """Puts the axes in the order that their labels have in `order`."""
        labels = self.labels[position]
        permutation = sorted(range(len(labels)), key=lambda i: order.index(labels[i]))
        if permutation == list(range(len(labels))):
            return position
        arranged = tuple(labels[i] for i in permutation)
        return self.write(lambda params, x: transpose(x, permutation), (position,), arranged)


def _sum(x: Any, axes: Sequence[int]) -> Any:
    return reduce_or(x, axes) if aval_of(x).dtype == dtypes.bool_ else reduce_sum(x, axes)
