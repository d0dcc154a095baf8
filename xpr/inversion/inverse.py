"""inverse : (a -> b) -> (b -> a). Walks a jaxpr backwards, equation by equation.

`exp(tanh(x))` is `b = tanh a; c = exp b`; from c the walk finds b by log, and a by atanh. Operands that are known are
used: in `c = mul a b` with b known, a is c / b. The walk consists of ordinary operations, so an inverse can be
compiled, differentiated and mapped. It is in solving.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xpr import dtypes, tree
from xpr.api.make_jaxpr import shaped, trace_function
from xpr.control.groups import split_list
from xpr.core.avals import aval_of
from xpr.core.jaxpr import constvars_to_invars
from xpr.core.source import describe_function
from xpr.errors import NotInvertible
from xpr.inversion import linear as linear  # rules
from xpr.inversion import loops as loops  # rules
from xpr.inversion import rules as rules
from xpr.inversion import scatters as scatters  # rules
from xpr.inversion.solutions import Unknown
from xpr.inversion.solving import solve
from xpr.passes.cse import without_repetitions
from xpr.primitives.elementwise import neg
from xpr.primitives.shapes import full
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import argument_names, as_array, named_like


def inverse(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    known: Mapping[int | str, Any] | None = None,
    like: Any = None,
) -> Callable[[Any], Any]:
    """The inverse of a function: from its result to the arguments it was called with.

    The program of `fun` is walked backwards. It may hold sums, products, quotients and powers of which one operand is
    known, products with a square matrix that is known, solves, elementary functions, sums along an axis, rearrangements
    of elements (shapes, slices, concatenation, reading and writing at known indices), choices and conditionals whose
    predicate is known, calls, scans, and loops whose number of steps is known. A variable may be used in several
    equations, as in coupling layers, if one of them determines it; elements that are known can be read. Even powers and
    periodic functions give the principal value.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      argnums: the positional argument to compute, or a sequence of several.
      known: values of the other arguments, by position or by name; None for none.
      like: the types of the arguments to compute (arrays, or anything with a shape and a dtype); a sequence if
        `argnums` is one. None for the type of the result.

    Returns:
      A function of the result of `fun` that returns the argument, or a tuple of them.

    Raises:
      NotInvertible: when called: an equation can't be inverted; the message shows it, with the user's line.
      TypeError: `fun` is no function, `known` no dictionary, or a position no integer.
      ValueError: an argument is neither looked for nor known, or the result has not the type that `fun` gives.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.inverse(lambda x: jnp.exp(2 * x))(jnp.exp(1.0))
    Array(0.5, dtype=float32, weak_type=True)
    >>> xpr.inverse(lambda x, y: x * y + 1, argnums=0, known={1: 4.0})(9.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return named_like(boundary(_Inverse(fun, argnums, known, like, False)), fun)


def inverse_and_log_det(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    known: Mapping[int | str, Any] | None = None,
    like: Any = None,
) -> Callable[[Any], tuple[Any, Any]]:
    """The inverse of a function, and the logarithm of the absolute determinant of the inverse's Jacobian.

    That is what the density of a transformed random variable needs: if x has the density p, then y = fun(x) has the
    logarithmic density `log p(x) + log_det`, with `x, log_det = inverse_and_log_det(fun)(y)`. The determinant is
    accumulated from the derivatives of the operations.

    Args:
      fun: as for `inverse`.
      argnums: as for `inverse`.
      known: as for `inverse`.
      like: as for `inverse`.

    Returns:
      A function of the result of `fun` that returns `(argument or tuple of arguments, log determinant)`.

    Raises:
      NotInvertible: as `inverse`, or arguments and results have not equally many elements.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.inverse_and_log_det(lambda x: 2 * x)(jnp.array([2.0, 4.0]))
    (Array([1., 2.], dtype=float32), Array(-1.3862944, dtype=float32))
    """
    return named_like(boundary(_Inverse(fun, argnums, known, like, True)), fun)


class _Inverse:
    """The inverse of a function for some of its arguments; called with its result."""

    def __init__(
        self, fun: Callable[..., Any], argnums: Any, known: Mapping[int | str, Any] | None, like: Any, log_det: bool
    ):
        self.what = "inverse_and_log_det" if log_det else "inverse"
        if not callable(fun):
            raise TypeError(f"{self.what} inverts functions, and got {fun!r}.")
        self.fun, self.like, self.log_det = fun, like, log_det
        if known is not None and not isinstance(known, Mapping):
            raise TypeError(
                f"{self.what}: `known` must be a dictionary of values by position or by name, as in known={{1: 4.0}} "
                f"or known={{'y': 4.0}}, and is {known!r}."
            )
        self.is_single = isinstance(argnums, int)
        self.argnums: tuple[int, ...] = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        values = dict(known or {})
        self.named = {key: values.pop(key) for key in list(values) if isinstance(key, str)}
        if not all(isinstance(n, int) for n in (*self.argnums, *values)):
            raise TypeError(
                f"{self.what}: arguments are named by integers, their positions, and in `known` also by name; got "
                f"argnums={argnums!r} and {list(known or ())} in `known`."
            )
        self.known: dict[int, Any] = values  # type: ignore[assignment]  # the other keys are positions
        self.count = 1 + max((*self.argnums, *self.known), default=-1)
        both, neither = (
            set(self.argnums) & set(self.known),
            set(range(self.count)) - set(self.argnums) - set(self.known),
        )
        if not self.argnums or both or neither or min(self.argnums) < 0:
            raise ValueError(
                f"{self.what}: each positional argument of {describe_function(fun)} is either looked for (argnums="
                f"{argnums}) or known (known has {sorted(self.known)})"
                + (
                    f"; argument {min(neither)} is neither."
                    if neither
                    else f"; {sorted(both)} are both."
                    if both
                    else "."
                )
            )
        self.check_call()

    def check_call(self) -> None:
        """Raises ValueError if the function can't be called with the arguments that are looked for or known."""
        try:
            signature = inspect.signature(self.fun, follow_wrapped=False)
        except ValueError:  # some builtins have none
            return
        try:
            signature.bind(*range(self.count), **self.named)
        except TypeError as error:
            looked_for, known = sorted(self.argnums), [*sorted(self.known), *self.named]
            raise ValueError(
                f"{self.what}: {describe_function(self.fun)} takes {signature}, and can't be called with the arguments "
                f"looked for (argnums {looked_for}) and known ({known}): {error}. Those not looked for are passed by "
                "position or by name, as in known={1: 4.0} or known={'y': 4.0}."
            ) from None

    def __call__(self, result: Any) -> Any:
        examples = self.like if self.like is not None else result
        parts = (examples,) if self.is_single else tuple(examples)
        if len(parts) != len(self.argnums):
            raise ValueError(
                f"{self.what}: {len(self.argnums)} arguments are looked for, and `like` gives types for {len(parts)}."
            )
        args = [self.known.get(i) for i in range(self.count)]
        for i, part in zip(self.argnums, parts):
            args[i] = part
        closed, out_tree = trace_function(self.fun, args, self.named, f"traced to be inverted by {self.what}")
        leaves = self.checked(result, closed.out_avals, out_tree)
        jaxpr, n = without_repetitions(constvars_to_invars(closed)), len(closed.consts)
        operands = [*closed.consts]
        for i, arg in enumerate(args):
            leaves_of_arg = [Unknown(shaped(x)) for x in tree.leaves(arg)] if i in self.argnums else tree.leaves(arg)
            operands.extend(leaves_of_arg)
        operands.extend(tree.leaves(self.named))
        if self.log_det:
            self.check_sizes(operands, leaves)
        names = argument_names(self.fun, args, self.named)
        try:
            solved, _, total = solve(jaxpr, operands, leaves, self.log_det, lambda i: names[i - n])
        except NotInvertible as error:
            raise NotInvertible(f"{self.what}: {describe_function(self.fun)} can't be inverted: {error}") from None
        _, arguments = split_list(solved, n)
        return self.unflattened(args, arguments, total, leaves)

    def checked(self, result: Any, avals: Sequence[Any], out_tree: Any) -> list[Any]:
        """The leaves of the result, if they have the types that the function gives."""
        leaves, structure = tree.flatten(result)
        types = [aval_of(x) for x in leaves]
        if structure != out_tree or any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(types, avals)):
            gives = tree.unflatten(out_tree, [a.str_short() for a in avals])
            got = tree.unflatten(structure, [a.str_short() for a in types])
            advice = "" if self.like is not None else " If the argument has other types than the result, say like=..."
            raise ValueError(
                f"{self.what}: {describe_function(self.fun)} gives {gives}, and the result is {got}.{advice}"
            )
        return leaves

    def check_sizes(self, operands: Sequence[Any], leaves: Sequence[Any]) -> None:
        n_unknown = sum(x.aval.size for x in operands if type(x) is Unknown)
        n_results = sum(aval_of(x).size for x in leaves)
        if n_unknown != n_results:
            raise NotInvertible(
                f"{self.what}: the Jacobian of {describe_function(self.fun)} has no determinant: it maps {n_unknown} "
                f"numbers to {n_results}. `inverse` gives its inverse alone."
            )

    def unflattened(self, args: Sequence[Any], solved: Sequence[Any], total: Any, leaves: Sequence[Any]) -> Any:
        values = iter(solved)
        solved_args = [tree.map(lambda _: as_array(next(values)), arg) for arg in args]
        selected = tuple(solved_args[i] for i in self.argnums)
        answer = selected[0] if self.is_single else selected
        if not self.log_det:
            return answer
        if total is None:
            dtype = next((aval_of(x).dtype for x in leaves if aval_of(x).dtype in dtypes.FLOATS), dtypes.float32)
            return answer, as_array(full((), 0, dtype))
        return answer, as_array(neg(total))
