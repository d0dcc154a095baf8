"""on_arrays : jaxpr -> jaxpr. Replaces values of types that users define by the arrays that they consist of.

The interpreter carries no values of its own: a value of a user's type is an object of the user's class, which holds
values of the trace below. Operations on such values run the function of arrays by which they are defined, and
operations that hold jaxprs on such values become the same operations of jaxprs on arrays, by their `on_arrays` rule.

    { lambda ; a:Tup{f32[],f32[]}. let b:f32[] = get_element[index=1] a; c:f32[] = sin b in (c,) }
    { lambda ; a:f32[] b:f32[]. let c:f32[] = sin b in (c,) }

A mutable value is a new object while the program is rewritten. The arrays that it consists of at the end are further
results of the program, as the last values of refs are (passes/discharge.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from xpr.core.avals import aval_of, types_of, without_state
from xpr.core.hi_types import AvalQDD, at_end
from xpr.core.interpreter import DependentTrace, context, current
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, constvars_to_invars, eval_jaxpr, jaxprs_in_params
from xpr.core.primitive import Primitive
from xpr.core.regions import called_jaxpr
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import convert_element_type_p
from xpr.transforms.stage import stage


class OnArraysTrace(DependentTrace):
    """Runs operations on values of users' types as functions of arrays; all others go to the trace below."""

    __slots__ = ()

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        if not primitive.call and primitive.on_arrays is None:
            return self.parent.process(primitive, args, params)
        with current(self):
            if primitive.prepare is not None:
                args, params = primitive.prepare(args, params)
            if primitive.regions is None:
                if primitive.on_arrays is not None:
                    return list(primitive.on_arrays(args, params))
                if primitive.lower_as is not None:  # a function that may compute with such values
                    return list(primitive.lower_as(*args, **params))
            elif any(inner.is_high for inner in jaxprs_in_params(params)):
                return run_on_arrays(primitive, args, params)
        return self.parent.process(primitive, args, params)


def run_on_arrays(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """An operation that holds jaxprs on values of users' types, as one on arrays, under the current interpreter.

    Raises:
      UnsupportedRule: it has no rule for that, and is no call.
    """
    if primitive.on_arrays is not None:
        return list(primitive.on_arrays(args, params))
    called = called_jaxpr(JaxprEqn((), (), primitive, params))
    if called is None:
        raise UnsupportedRule(
            f"{primitive.name} holds a function of values of a user's type, and such functions are for jit, scan, "
            "while_loop, cond, checkpoint, shard_map, custom_jvp and custom_vjp. Pass the arrays that the values "
            "consist of."
        )
    with current(OnArraysTrace(context.trace)):
        return eval_jaxpr(called, (), *args)


class OnArrays:
    """A program on values of users' types as one on arrays.

    Attributes:
      jaxpr: the program on arrays, with its constants: `arguments -> results | arrays of mutable arguments`.
      in_avals: the types of the arguments of the program on values.
      out_avals: the types of its results.
      mutable: which of its arguments are mutable.
    """

    __slots__ = ("in_avals", "jaxpr", "mutable", "out_avals")

    def __init__(self, jaxpr: Jaxpr):
        self.in_avals, self.out_avals = jaxpr.in_avals, list(map(at_end, jaxpr.out_avals))
        self.mutable = [type(a) is AvalQDD for a in self.in_avals]

        def run(*arrays: Any) -> list[Any]:
            with current(OnArraysTrace(context.trace)):
                values = raised(self.in_avals, arrays)
                outs = lowered(self.out_avals, eval_jaxpr(jaxpr, (), *values))
                return outs + lowered(self.last_avals, [*compress(values, self.mutable)])

        self.jaxpr = stage(run, arrays_in(self.in_avals))

    @property
    def last_avals(self) -> list[Any]:
        """The types of the mutable arguments, with the states in which the program leaves them."""
        return list(map(at_end, compress(self.in_avals, self.mutable)))

    # The variables of the program on arrays, those of each value in a list

    @property
    def argument_vars(self) -> list[list[Any]]:
        """Those of the arguments."""
        return _split(self.in_avals, self.jaxpr.invars)

    @property
    def result_vars(self) -> list[list[Any]]:
        """Those of the results."""
        return _split(self.out_avals, self.jaxpr.outvars)

    @property
    def last_vars(self) -> list[list[Any]]:
        """Those of what the mutable arguments are at the end."""
        return _split([*self.out_avals, *self.last_avals], self.jaxpr.outvars)[len(self.out_avals) :]

    def check_states(self, what: str) -> None:
        """Raises TypeError where the program, which is run again with the same arguments, changes the type of one."""
        avals: list[Any] = list(compress(self.in_avals, self.mutable))
        for before, after in zip(avals, self.last_avals):
            if before.qdd != after.qdd:
                raise TypeError(
                    f"{what}: type-changing mutations not allowed in loops: the body changes the type of what a value "
                    f"of type {before.str_short()} holds.\n  before   {before.qdd}\n  after    {after.qdd}\n"
                    "Give the value what it holds in the loop before it, of the same structure, shapes and dtypes."
                )

    def arguments(self, values: Sequence[Any]) -> list[Any]:
        """The arrays that the arguments consist of."""
        return lowered(self.in_avals, values)

    def results(self, values: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        """The results, from the arrays that the program gave; mutable arguments are changed."""
        count = len(arrays_in(self.out_avals))
        self.change(values, arrays[count:])
        return raised(self.out_avals, arrays[:count])

    def change(self, values: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Changes the mutable ones of the arguments to what they consist of at the end."""
        avals = self.last_avals
        for x, aval, last in zip(compress(values, self.mutable), avals, _split(avals, arrays)):
            aval.aval.update_from_loval(aval.qdd, x, *last)


def on_arrays(jaxpr: Jaxpr) -> OnArrays:
    """The program on arrays, cached with the jaxpr, which has no constants."""
    known = jaxpr.memo.get("on arrays")
    if known is None:
        known = jaxpr.memo["on arrays"] = OnArrays(jaxpr)
    return known  # type: ignore[no-any-return]


def arrays_alone(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program on arrays of one whose arguments, results and constants are arrays."""
    inner, n = on_arrays(constvars_to_invars(closed)).jaxpr, len(closed.consts)
    jaxpr = inner.jaxpr
    constvars = [*jaxpr.constvars, *jaxpr.invars[:n]]
    return ClosedJaxpr(jaxpr.replace(constvars=constvars, invars=jaxpr.invars[n:]), [*inner.consts, *closed.consts])


# -- Values as arrays, and arrays as values, by types


def arrays_in(avals: Sequence[Any]) -> list[Any]:
    """The types of the arrays that values of these types consist of."""
    return [each for aval in avals for each in _types(aval)]


def _types(aval: Any) -> list[Any]:
    return aval.lo_ty() if aval.is_high else [aval]  # type: ignore[no-any-return]  # a user's function


def lowered(avals: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The arrays that values of these types consist of, mutable ones in these states.

    Raises:
      TypeError: they are others than the types say.
    """
    if not any(aval.is_high for aval in avals):
        return list(values)
    arrays = []
    for aval, x in zip(avals, values):
        arrays += _lower(aval, x) if aval.is_high else [x]
    return arrays


def _lower(aval: Any, value: Any) -> list[Any]:
    types = aval.lo_ty()
    arrays = aval.aval.read_loval(aval.qdd, value) if type(aval) is AvalQDD else aval.lower_val(value)
    actual = list(map(aval_of, arrays))
    if [(a.shape, a.dtype) for a in actual] != [(a.shape, a.dtype) for a in types]:
        raise TypeError(
            f"A value of type {aval.str_short()} consists of other arrays than its type says:\n"
            f"  {type(without_state(aval)).__name__}.lo_ty    {types_of(types)}\n  the value    {types_of(actual)}"
        )
    return list(map(_weak_as, types, arrays))


def _weak_as(aval: Any, array: Any) -> Any:
    """An array that is as weakly typed as a type says."""
    if aval_of(array).weak_type == aval.weak_type:
        return array
    return convert_element_type_p.bind(array, new_dtype=aval.dtype, weak_type=aval.weak_type)


def raised(avals: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """The values of these types that consist of arrays."""
    return list(map(_raise, avals, _split(avals, arrays)))


def _raise(aval: Any, arrays: Sequence[Any]) -> Any:
    if not aval.is_high:
        return arrays[0]
    return aval.aval.new_from_loval(aval.qdd, *arrays) if type(aval) is AvalQDD else aval.raise_val(*arrays)


def _split(avals: Sequence[Any], arrays: Sequence[Any]) -> list[list[Any]]:
    """The arrays of each of several values."""
    remaining = iter(arrays)
    return [[next(remaining) for _ in _types(aval)] for aval in avals]
