"""The public interface for defining new primitives and new transformations.

An operation of your own, with the rules that you need:

    softclip_p = Primitive("softclip")

    @softclip_p.def_lowering_as
    def _(x, *, limit): return limit * jnp.tanh(x / limit)

    @softclip_p.def_jvp
    def _(primals, tangents, *, limit): ...

    def softclip(x): return softclip_p.bind(x, limit=1.0)

Each `def_...` defines one rule and can be used as a decorator. The primitive composes with every transformation that
it has a rule for; where a rule is missing, the error says which and how to define it.

A transformation of your own is added in one of two ways, both of which compose with all others:

* Walk a jaxpr. `xpr.make_jaxpr(fun)(*args)` is the program; go through its equations with an environment of values,
  binding `eqn.primitive` to do operations, and into the jaxprs that equations hold by `regions_of(eqn)`.
* Subclass `Trace` and `Tracer`. `process(primitive, args, params)` sees each operation as it happens; `context.trace`
  is the enclosing trace, and `with current(trace): ...` makes yours the one that processes operations.

The page "Writing interpreters" has three, complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from xpr.backend.array import Array, from_host
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.lower import check_lowered
from xpr.compile.reference import reference_eval
from xpr.core.avals import ShapedArray, Zero, aval_of, describe
from xpr.core.interpreter import Trace, Tracer, context, current
from xpr.core.jaxpr import eval_jaxpr, subjaxprs
from xpr.core.primitive import Fusion, Linear, Unsupported, is_linear, register, with_impl
from xpr.core.primitive import Primitive as _CorePrimitive
from xpr.core.regions import Region, regions_of
from xpr.primitives.shapes import instantiate
from xpr.text.parameters import register_parameter
from xpr.transforms.stage import stage

__all__ = [
    "Builder", "Linear", "Primitive", "Region", "ShapedArray", "Trace", "Tracer", "Value", "Zero", "aval_of", "context",
    "current", "eval_jaxpr", "is_linear", "regions_of", "register_parameter", "subjaxprs",
]  # fmt: skip

Rule = Callable[..., Any]


class _AnyPrimitive(type):
    """Makes all primitives instances of `Primitive`, by which libraries annotate and check them."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _CorePrimitive) if cls is Primitive else super().__instancecheck__(instance)


class Primitive(_CorePrimitive, metaclass=_AnyPrimitive):
    """A new primitive without rules; the `def_...` methods add them.

    Args:
      name: as jaxprs print it.
      multiple_results: whether it returns a list of results rather than one; a subclass may say so instead, by a class
        attribute. Methods `impl` and `abstract_eval` of a subclass, which returns types and effects, are its rules.
      fusion: how XLA fuses it, if it is elementwise: "cheap" (a few instructions for each element) or "expensive".

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.extend import Primitive
    >>> double_p = Primitive("double")
    >>> double_p.def_lowering_as(lambda x: 2 * x)  # doctest: +ELLIPSIS
    <function ...
    >>> double_p.bind(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    >>> xpr.make_jaxpr(double_p.bind)(1.0)
    { lambda ; a:f32[]. let b:f32[] = double a in (b,) }
    """

    __slots__ = ("impl",)
    impl: Rule  # the evaluation as it was defined; binding, where it was not

    def __init__(self, name: str, multiple_results: bool = False, *, fusion: Fusion = None):
        def missing(method: str) -> Unsupported:
            return Unsupported(f"Give {name} one with {name}_p.{method}(...).")

        super().__init__(
            name,
            abstract=missing("def_abstract_eval"),
            reference=missing("def_impl"),
            lower=missing("def_lowering or def_lowering_as"),
            jvp=missing("def_jvp"),
            transpose=missing("def_transpose"),
            batch=missing("def_batching"),
            multiple_results=multiple_results or getattr(type(self), "multiple_results", False) is True,
            any_params=True,
            fusion=fusion,
        )
        register(self)
        methods = type(self)
        if methods.impl is Primitive.impl:
            self.impl = self.bind
        else:
            self.def_impl(MethodType(methods.impl, self))
        if methods.abstract_eval is not _CorePrimitive.abstract_eval:
            self.def_effectful_abstract_eval(MethodType(methods.abstract_eval, self))

    def _listed(self, out: Any) -> list[Any]:
        return list(out) if self.multiple_results else [out]

    def _pair(self, returned: Any, method: str, form: str) -> tuple[Any, Any]:
        """What a rule returned, which is to be a pair; raises TypeError if it is none."""
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise TypeError(f"{self.name}: its rule of {method} must return {form}, and returned {describe(returned)}.")
        first, second = returned
        return first, second

    def def_impl(self, rule: Rule) -> Rule:
        """The evaluation: `rule(*arrays, **params)` returns NumPy or xpr arrays. Eager calls run it."""

        def reference(values: Sequence[Any], **params: Any) -> list[Any]:
            return [np.asarray(x) for x in self._listed(rule(*values, **params))]

        def evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
            if not isinstance(self.abstract, Unsupported):
                self.type_of(tuple(map(aval_of, args)), params)
            arrays = [x if type(x) is Array else from_host(np.array(x)) for x in args]
            outs = self._listed(rule(*arrays, **params))
            return [x if type(x) is Array else from_host(np.array(x)) for x in outs]

        self.reference, self.evaluate, self.impl = reference, evaluate, rule
        with_impl.add(self)
        return rule

    def _typed(self, x: Any) -> ShapedArray:
        """The type that a typing rule returned; raises TypeError if it is none."""
        if isinstance(x, ShapedArray):
            return x
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise TypeError(
                f"{self.name}: its rule of def_abstract_eval must return ShapedArrays, or what has a shape and a "
                f"dtype, and returned {describe(x)}."
            )
        return ShapedArray(x.shape, x.dtype)

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """The types: `rule(*avals, **params)` returns a `ShapedArray` (or anything with shape and dtype), or a list."""

        def abstract(avals: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
            outs = rule(*avals, **params)
            if isinstance(outs, (tuple, list)) is not self.multiple_results:
                raise ValueError(
                    f"{self.name}.abstract_eval() method should return a tuple or list of types where multiple_results "
                    f"is True, and one type where it is False. It is {self.multiple_results}, and {outs!r} was "
                    "returned."
                )
            return [self._typed(x) for x in self._listed(outs)]

        self.abstract, self.effects = abstract, None
        return rule

    def def_effectful_abstract_eval(self, rule: Rule) -> Rule:
        """The types and effects: `rule(*avals, **params)` returns what `def_abstract_eval` says, and a set of effects.

        Effects are instances of subclasses of `xpr.core.Effect`. A call with effects is never removed, and never shared
        with another. Classes of effects are added to `xpr.core.lowerable_effects` so that they can be compiled, to
        `ordered_effects` if they happen in the order of the program, to `control_flow_allowed_effects` for loops and
        branches, and to `custom_derivatives_allowed_effects` for `custom_jvp` and `custom_vjp`.

        >>> import xpr
        >>> from xpr.extend import Primitive
        >>> class Sends(xpr.core.Effect):
        ...     __repr__ = lambda self: "Sends"
        >>> xpr.core.lowerable_effects.add_type(Sends)
        >>> send_p = Primitive("send")
        >>> _ = send_p.def_effectful_abstract_eval(lambda aval, *, quiet: (aval, set() if quiet else {Sends()}))
        >>> xpr.make_jaxpr(lambda x: send_p.bind(x, quiet=False))(1.0).effects
        frozenset({Sends})
        >>> xpr.make_jaxpr(lambda x: send_p.bind(x, quiet=True))(1.0).effects
        frozenset()
        """
        self.def_abstract_eval(lambda *avals, **params: rule(*avals, **params)[0])
        self.effects = lambda avals, **params: rule(*avals, **params)[1]
        return rule

    def def_jvp(self, rule: Rule) -> Rule:
        """The derivative: `rule(primals, tangents, **params) -> (result, tangent)`; zero tangents are arrays."""

        def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
            returned = rule(tuple(primals), tuple(map(instantiate, tangents)), **params)
            outs, out_tangents = self._pair(returned, "def_jvp", "(result, tangent)")
            listed = [
                Zero.from_primal_value(x) if t is None else t
                for x, t in zip(self._listed(outs), self._listed(out_tangents), strict=True)
            ]
            return self._listed(outs), listed

        self.jvp = jvp
        return rule

    def def_transpose(self, rule: Rule) -> Rule:
        """The transpose: `rule(ct, *operands, **params)` returns a cotangent for each operand, None for known ones.

        Linear operands are `Linear(aval)`; `is_linear(operand)` tests for these. With several results `ct` is a list.
        """

        def transpose(cts: Sequence[Any], operands: Sequence[Any], **params: Any) -> list[Any]:
            cts = [instantiate(ct) for ct in cts]
            return list(rule(cts if self.multiple_results else cts[0], *operands, **params))

        self.transpose = transpose
        return rule

    def def_batching(self, rule: Rule) -> Rule:
        """The batching: `rule(size, vals, dims, **params) -> (result, dim)`; a dim is None where not mapped."""

        def batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
            returned = rule(size, tuple(values), tuple(dims), **params)
            outs, out_dims = self._pair(returned, "def_batching", "(result, dim)")
            return self._listed(outs), self._listed(out_dims)

        self.batch = batch
        return rule

    def def_regions(self, rule: Rule) -> Rule:
        """The jaxprs among its parameters: `rule(**params)` returns a `Region` for each.

        Analyses of programs (costs, dependence, dead code, `debug_nans`, the page) then include them, as they do
        those of the library's loops and calls.

        >>> import xpr
        >>> from xpr.extend import Primitive, Region
        >>> thrice_p = Primitive("thrice")
        >>> _ = thrice_p.def_regions(
        ...     lambda *, body: [Region(body, "loop", operands=(0,), results=((0,),), carry=(0,), times=3)]
        ... )
        >>> run = lambda x, *, body: [x := xpr.core.eval_jaxpr(body, (), x)[0] for _ in range(3)][-1]
        >>> _ = thrice_p.def_lowering_as(run)
        >>> body = xpr.make_jaxpr(lambda x: x * x)(1.0).jaxpr
        >>> xpr.jaxpr.cost(lambda x: thrice_p.bind(x, body=body))(2.0).flops
        3
        """
        self.regions, self.call = rule, True
        return rule

    def def_lowering(self, rule: Rule) -> Rule:
        """The StableHLO: `rule(builder, operands, avals, **params)` returns a `Value`, or several.

        `avals` are the types of the results; see `Builder.op`.
        """

        def lower(builder: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
            values = self._listed(rule(builder, operands, avals, **params))
            if not all(isinstance(value, Value) for value in values):
                raise TypeError(f"{self.name}: its rule of def_lowering must return Values, and returned {values!r}.")
            check_lowered(self.name, [value.aval for value in values], avals)
            return values

        self.lower = lower
        return rule

    def def_lowering_as(self, rule: Rule) -> Rule:
        """A traceable function `rule(*arrays, **params)` to compile instead of the primitive.

        It also defines the types and the evaluation, where no other rule does.
        """

        def flat(params: dict[str, Any]) -> Rule:
            return lambda *xs: self._listed(rule(*xs, **params))

        def reference(values: Sequence[Any], **params: Any) -> list[Any]:
            closed = stage(flat(params), [aval_of(x) for x in values])
            return reference_eval(closed.jaxpr, closed.consts, *values)

        self.lower_as = lambda *xs, **params: self._listed(rule(*xs, **params))
        if isinstance(self.abstract, Unsupported):
            self.abstract = lambda avals, **params: stage(flat(params), avals).out_avals
        if isinstance(self.reference, Unsupported):
            self.reference = reference
        return rule
