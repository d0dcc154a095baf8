"""einsum: products summed over indices, in Einstein's notation.

The subscripts, the shapes and the way of optimizing are worked out once into a program, a list of steps. A step reads
one or two of the values so far (the operands come first) and adds one. Later calls only run the steps. Three operands
or more are contracted pair by pair, in the order that opt_einsum finds to be cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.numpy.axes import no_out
from xpr.numpy.creation import asarray
from xpr.numpy.matrices import diagonal
from xpr.numpy.promotion import convert, promote_dtypes
from xpr.primitives.dot import contract
from xpr.primitives.elementwise import mul
from xpr.primitives.precision import PrecisionLike, canonical_precision
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import broadcast_in_dim, reduce_sum, squeeze, transpose

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
) -> Any:
    """Products of arrays summed over indices.

    Args:
      subscripts: a letter (or digit) for each axis of each operand, and those of the result: "ij,jk->ik". A letter that
        is not in the result is summed over; one that stands twice in an operand takes its diagonal. Without "->" the
        result has the letters that stand once, in alphabetical order. "..." stands for any axes, which broadcast.
        Instead of a string, operands may be followed by lists of integers: einsum(x, [0, 1], y, [1, 2], [0, 2]).
      operands: arrays.
      optimize: how opt_einsum looks for an order: "auto", "optimal", "greedy", ..., or True; False goes from left to
        right; a list gives the order itself, as `einsum_path` does.
      precision: see `lax.Precision`.
      preferred_element_type: the dtype to sum in, and of the result.
    Raises:
      ValueError: the subscripts are not well formed or don't fit the operands.

    >>> import xpr.numpy as jnp
    >>> jnp.einsum("ij,j->i", jnp.ones((2, 3)), jnp.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    no_out("einsum", out)
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    values: list[Any] = promote_dtypes(*operands)
    if len(values) == 1:
        values = [asarray(values[0])]
    shapes = tuple([aval_of(x).shape for x in values])
    way = optimize
    if not isinstance(optimize, (str, bool)):
        way = tuple([step if isinstance(step, str) else tuple(step) for step in optimize])
    dtype = aval_of(values[0]).dtype if preferred_element_type is None else dtypes.canonical(preferred_element_type)
    params = {"precision": canonical_precision(precision), "preferred_element_type": dtype}
    steps, place = _program(subscripts, shapes, way)
    for places, run in steps:
        values.append(run(params, *[values[i] for i in places]))
    return values[place] if preferred_element_type is None else convert(values[place], dtype)


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: str | bool | Sequence[tuple[int, ...]] = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """The order in which `einsum` would contract the operands, and opt_einsum's account of it.

    >>> import xpr.numpy as jnp
    >>> a, b = jnp.ones((100, 100)), jnp.ones(100)
    >>> path, info = jnp.einsum_path("ij,jk,k->i", a, a, b)
    >>> path
    [(1, 2), (0, 1)]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    shapes = [aval_of(x).shape for x in promote_dtypes(*operands)]
    return _opt_einsum().contract_path(subscripts, *shapes, shapes=True, optimize=_way(optimize))


def _way(optimize: Any) -> Any:
    return "optimal" if optimize is True else optimize


def _opt_einsum() -> Any:
    import opt_einsum

    return opt_einsum


# -- Reading subscripts


def _from_lists(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The other form of arguments, operands each followed by its labels, as subscripts and operands."""
    pairs = len(args) // 2
    operands = args[0 : 2 * pairs : 2]
    lists = [list(labels) for labels in args[1 : 2 * pairs : 2]]
    given = [list(args[-1])] if len(args) % 2 else []
    known = {label for labels in (*lists, *given) for label in labels if label is not Ellipsis}
    letters = {label: chr(ord("a") + i) if i < 26 else chr(192 + i) for i, label in enumerate(sorted(known))}
    texts = ["".join("..." if label is Ellipsis else letters[label] for label in labels) for labels in (*lists, *given)]
    return ",".join(texts[: len(lists)]) + ("->" + texts[-1] if given else ""), operands


def _read(subscripts: str, shapes: tuple[Shape, ...]) -> tuple[list[Labels], Labels]:
    """The labels of the operands' axes and of the result's. Those of "..." are numbers, 0 for the last axis."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    texts = inputs.split(",")
    if len(texts) != len(shapes):
        raise ValueError(
            f"einsum: {subscripts!r} has subscripts for {len(texts)} operands, and {len(shapes)} were given."
        )
    terms = [_term(text, shape, subscripts) for text, shape in zip(texts, shapes)]
    rest = sorted({label for term in terms for label in term if isinstance(label, int)}, reverse=True)
    letters = [label for term in terms for label in term if isinstance(label, str)]
    if not arrow:
        return terms, (*rest, *sorted(c for c in set(letters) if letters.count(c) == 1))
    head, dots, tail = output.partition("...")
    out: Labels = (*head, *(rest if dots else ()), *tail)
    unknown = [c for c in out if c not in letters and c not in rest]
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
                what = f"index {label!r}" if isinstance(label, str) else "an axis of '...'"
                given = ", ".join(map(str, shapes))
                raise ValueError(f"einsum: in {subscripts!r} {what} has sizes {known} and {n}: the shapes are {given}.")
    return sizes


# -- The program


@lru_cache(maxsize=2048)
def _program(subscripts: str, shapes: tuple[Shape, ...], optimize: Any) -> tuple[tuple[Step, ...], int]:
    """The steps that turn operands of these shapes into the result, and where the result then is."""
    terms, out = _read(subscripts, shapes)
    writer = _Writer(terms, shapes, _sizes(subscripts, terms, shapes))
    live = list(range(len(terms)))
    for positions in _order(subscripts, shapes, len(terms), optimize):
        taken = [live[i] for i in positions]
        live = [place for i, place in enumerate(live) if i not in positions]
        while len(taken) > 1:
            elsewhere = {*out, *(label for place in (*live, *taken[2:]) for label in writer.labels[place])}
            taken[:2] = [writer.multiply(taken[0], taken[1], elsewhere, out)]
        live.append(taken[0])
    if len(live) != 1:
        raise ValueError(f"einsum: optimize={optimize} leaves {len(live)} operands that are not contracted.")
    place = writer.arrange(writer.simplify(live[0], set(out)), out)
    return tuple(writer.steps), place


def _order(subscripts: str, shapes: tuple[Shape, ...], count: int, optimize: Any) -> Sequence[tuple[int, ...]]:
    """Which operands each step takes out of the list; its result goes to the end."""
    if isinstance(optimize, tuple):
        return [step for step in optimize if not isinstance(step, str)]
    if count <= 2 or optimize is False:
        return [(0, 1), *((n, 0) for n in range(count - 2, 0, -1))] if count > 1 else []
    return _opt_einsum().contract_path(subscripts, *shapes, shapes=True, optimize=_way(optimize))[0]


class _Writer:
    """Writes a program. `labels` and `shapes` are those of the operands and of what each step gives."""

    def __init__(self, labels: Sequence[Labels], shapes: Sequence[Shape], sizes: dict[Any, int]):
        self.labels, self.shapes, self.sizes = list(labels), list(shapes), sizes
        self.steps: list[Step] = []

    def write(
        self, run: Callable[..., Any], places: tuple[int, ...], labels: Labels, shape: Shape | None = None
    ) -> int:
        self.steps.append((places, run))
        self.labels.append(labels)
        self.shapes.append(tuple([self.sizes[label] for label in labels]) if shape is None else shape)
        return len(self.labels) - 1

    def simplify(self, place: int, needed: set[Any]) -> int:
        """Takes diagonals, drops axes of size 1 that broadcast, and sums over what is not needed."""
        labels = self.labels[place]
        for label in labels:
            while self.labels[place].count(label) > 1:
                place = self._diagonal(place, label)
        labels, shape = self.labels[place], self.shapes[place]
        spread = [i for i, (label, n) in enumerate(zip(labels, shape)) if n == 1 != self.sizes[label]]
        if spread:
            place = self._without(place, spread, lambda params, x: squeeze(x, spread))
        summed = [i for i, label in enumerate(self.labels[place]) if label not in needed]
        return self._without(place, summed, lambda params, x: _sum(x, summed)) if summed else place

    def _without(self, place: int, axes: list[int], run: Callable[..., Any]) -> int:
        kept = [i for i in range(len(self.labels[place])) if i not in axes]
        labels, shape = (tuple(values[i] for i in kept) for values in (self.labels[place], self.shapes[place]))
        return self.write(run, (place,), labels, shape)

    def _diagonal(self, place: int, label: Any) -> int:
        labels, shape = self.labels[place], self.shapes[place]
        first = labels.index(label)
        second = labels.index(label, first + 1)
        rest = [i for i in range(len(labels)) if i not in (first, second)]
        if shape[first] != shape[second]:  # one of them is 1 and broadcasts
            gone = first if shape[first] == 1 else second
            return self._without(place, [gone], lambda params, x: squeeze(x, (gone,)))
        return self.write(
            lambda params, x: diagonal(x, 0, first, second), (place,), (*(labels[i] for i in rest), label),
            (*(shape[i] for i in rest), shape[first]),
        )  # fmt: skip

    def multiply(self, left: int, right: int, needed: set[Any], out: Labels) -> int:
        """The product of two operands, summed over what is needed neither elsewhere nor in the result."""
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
            axes = [tuple(map(order.index, self.labels[place])) for place in (left, right)]
            return self.write(
                lambda params, a, b: mul(*(broadcast_in_dim(v, shape, at) for v, at in zip((a, b), axes))),
                (left, right), order,
            )  # fmt: skip
        return self.write(lambda params, a, b: contract(a, x, b, y, order, **params), (left, right), order)

    def arrange(self, place: int, order: Labels) -> int:
        """Puts the axes in the order that their labels have in `order`."""
        labels = self.labels[place]
        permutation = sorted(range(len(labels)), key=lambda i: order.index(labels[i]))
        if permutation == list(range(len(labels))):
            return place
        arranged = tuple(labels[i] for i in permutation)
        return self.write(lambda params, x: transpose(x, permutation), (place,), arranged)


def _sum(x: Any, axes: Sequence[int]) -> Any:
    return reduce_or(x, axes) if aval_of(x).dtype == dtypes.bool_ else reduce_sum(x, axes)
