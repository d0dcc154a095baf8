"""laplacian : (R^n -> b) -> (R^n -> b). The sum of the second derivatives, in one forward pass.

A value is augmented to (x, its derivatives in the n directions, its Laplacian). Of y = f(x) with directions d[i] and
Laplacian L, the directions are f'(x) d[i], and the Laplacian is f'(x) L + sum_i f''(x)(d[i], d[i]): no Hessian is
computed, and the second derivatives are summed operation by operation. Li et al., "A computational framework for neural
network-based variational Monte Carlo with forward Laplacian" (2023), arXiv:2307.08214.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes, tree
from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Trace, context
from xpr.core.primitive import Primitive
from xpr.core.source import check_function, describe_function
from xpr.numpy.matrices import eye
from xpr.primitives.dot import dot_general_p
from xpr.primitives.elementwise import mul_p
from xpr.primitives.shapes import expand_dims, mapped_to, reduce_sum, reshape, zeros_like_aval
from xpr.primitives.slicing import concatenate, slice_in_dim
from xpr.primitives.windows.convolution import conv_general_dilated_p
from xpr.series import augmented_control as augmented_control  # rules for control flow
from xpr.series.augmented import AugmentedTrace, Jet, run_augmented
from xpr.series.power_series import times, zeros
from xpr.series.taylor import TaylorTrace
from xpr.series.taylor_rules import RULES, WORTH_COMPILING, by_jvp, each_by_itself, mapped_jvp
from xpr.transforms.batch import batch_flat
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import LEAF, FlatFunction, as_array, distinct_positions, named_like


class LaplacianTrace(AugmentedTrace):
    """Augments values by derivatives in `count` directions, and the sum of second derivatives."""

    __slots__ = ("count",)
    verb = "differentiated twice"
    worth_compiling = WORTH_COMPILING

    def __init__(self, parent: Trace, count: int):
        super().__init__(parent)
        self.count = count

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.count,)

    def like(self, parent: Trace) -> LaplacianTrace:
        return LaplacianTrace(parent, self.count)

    def types(self, aval: ShapedArray) -> list[ShapedArray]:
        return [aval.update(shape=(self.count, *aval.shape)), aval]

    def arrays(self, jet: Jet, value: Any) -> Jet:
        directions, laplacian = jet
        return directions, zeros(value) if laplacian is None else laplacian

    def apply(
        self,
        primitive: Primitive,
        values: Sequence[Any],
        jets: Sequence[Jet | None],
        params: dict[str, Any],
    ) -> Any:
        """Series of order 2 in all directions at once; the Laplacian is divided among them, and summed again.

        With x(t) = x + t d[i] + t^2 L / 2n the coefficient of t^2 is (f'(x) L / n + f''(x)(d[i], d[i])) / 2. A
        linear operation has no second derivative, so its Laplacian is a tangent like any other.
        """
        if _is_linear(primitive, jets):
            return self.linear(primitive, values, jets, params)
        rows = [x for c in jets if c is not None for x in c if x is not None]
        dims = [d for c in jets if c is not None for d, x in zip((0, None), c) if x is not None]
        varying: list[list[bool] | None] = []

        def along(*rows: Any) -> list[Any]:
            arrays = iter(rows)
            series = [None if c is None else [next(arrays), self.share(c[1], arrays)] for c in jets]
            trace = TaylorTrace(context.trace, 2)
            outs, out_jets = trace.apply(primitive, values, [None if r is None else tuple(r) for r in series], params)
            varying[:] = [None if c is None else [x is not None for x in c] for c in out_jets]
            return [*outs, *(x for c in out_jets if c is not None for x in c if x is not None)]

        pairs = list(zip(*batch_flat(along, self.count, rows, dims)))
        of_values, of_arrays = split_list(pairs, len(varying))
        outs = [x if d is None else _first(mapped_to(x, d, self.count)) for x, d in of_values]
        arrays = iter([mapped_to(x, d, self.count) for x, d in of_arrays])
        return outs, [None if has is None else self.summed(has, arrays, y) for has, y in zip(varying, outs)]

    def share(self, laplacian: Any, arrays: Any) -> Any:
        """The part of a Laplacian that goes along one direction."""
        return None if laplacian is None else times(next(arrays), 0.5 / self.count)

    def summed(self, has: Sequence[bool], arrays: Any, value: Any) -> Jet:
        directions = next(arrays) if has[0] else zeros_like_aval(self.types(aval_of(value))[0])
        return directions, times(reduce_sum(next(arrays), (0,)), 2) if has[1] else None

    def linear(
        self,
        primitive: Primitive,
        values: Sequence[Any],
        jets: Sequence[Jet | None],
        params: dict[str, Any],
    ) -> Any:
        """Applies the derivative to the directions and, as one more of them, to the Laplacian."""
        has = any(c is not None and c[1] is not None for c in jets)

        def rows(x: Any, c: Jet) -> Any:
            return concatenate([c[0], expand_dims(self.arrays(c, x)[1], (0,))], 0) if has else c[0]

        stacks = [None if c is None else rows(x, c) for x, c in zip(values, jets)]
        outs, varying, tangents = mapped_jvp(primitive, values, stacks, self.count + has, params)

        def parts(array: Any) -> Jet:
            directions = slice_in_dim(array, 0, self.count)
            return directions, _first(slice_in_dim(array, self.count, self.count + 1)) if has else None

        return outs, [parts(array) if flag else None for flag, array in zip(varying, tangents)]


_PRODUCTS = (mul_p, dot_general_p, conv_general_dilated_p)


def _is_linear(primitive: Primitive, jets: Sequence[Jet | None]) -> bool:
    if primitive in _PRODUCTS:
        return sum(c is not None for c in jets) == 1
    return RULES.get(primitive) in (by_jvp, each_by_itself)


def _first(array: Any) -> Any:
    return reshape(slice_in_dim(array, 0, 1), aval_of(array).shape[1:])


def laplacian(fun: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The Laplacian of a function: the sum of its second derivatives by each element of an argument.

    One forward pass computes, with every value, its derivatives by all elements and its Laplacian, so no Hessian is
    computed; Li et al. (2023), arXiv:2307.08214.

    Args:
      fun: a function of pytrees of arrays to one.
      argnums: the argument to differentiate by, an array.

    Returns:
      A function of the same arguments that returns the Laplacian of each element of the result, in the structure of the
      result.

    Raises:
      TypeError: the argument is no array of floats.
      ValueError: `argnums` names several arguments, or one that is not there.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.laplacian(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]))
    Array(18., dtype=float32)
    """
    check_function(fun, "laplacian")

    def summed(*args: Any, **kwargs: Any) -> Any:
        numbers = distinct_positions(argnums, len(args), "argnums")
        if len(numbers) != 1:
            raise ValueError(f"laplacian: it is taken by one argument, and argnums={argnums!r} names {len(numbers)}.")
        (position,) = numbers
        x = args[position]
        aval = aval_of(x) if tree.structure(x) == LEAF else None
        if aval is None or aval.dtype not in dtypes.FLOATS:
            what = "a pytree" if aval is None else aval.str_short()
            name = describe_function(fun)
            raise TypeError(f"laplacian: argument {position} of {name} must be an array of floats, and is {what}.")
        leaves, in_tree = tree.flatten((args, kwargs))
        before = len(tree.leaves(args[:position]))
        flat = FlatFunction(fun, in_tree)
        directions = reshape(eye(aval.size, dtype=aval.dtype), (aval.size, *aval.shape))
        jets: list[Jet | None] = [None] * len(leaves)
        if aval.size:  # without elements there is no direction, and all Laplacians are zero
            jets[before] = (directions, None)
        outs, out_jets = run_augmented(LaplacianTrace(context.trace, aval.size), flat, leaves, jets)
        values = [zeros(y) if c is None or c[1] is None else c[1] for y, c in zip(outs, out_jets)]
        return tree.unflatten(flat.out_tree, [as_array(v) for v in values])

    return named_like(boundary(summed), fun)
