"""Types of one's own: operations on their values under every transformation, mutable values, and what is refused."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import close, primitive_names, same
from xpr import core, lax
from xpr.errors import ArgumentError, RefError, UnsupportedRule
from xpr.experimental import cur_qdd
from xpr.experimental.hijax import (
    AbstractValue,
    AvalQDD,
    Box,
    GradAccum,
    HiPrimitive,
    HiPspec,
    HiType,
    MappingSpec,
    MutableHiType,
    NullAccum,
    VJPHiPrimitive,
    Zero,
    aval_method,
    aval_property,
    box_get,
    box_set,
    instantiate_zeros,
    is_undefined_primal,
    new_box,
    register_hitype,
)

F32 = core.ShapedArray((), np.float32)
X = np.float32([0.5, -1.0, 2.0])


# -- A type of pairs, whose parts are values of any types


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any


@dataclass(frozen=True)
class PairSpec(MappingSpec):
    first: Any
    second: Any


@dataclass(frozen=True)
class PairPspec(HiPspec):
    first: Any
    second: Any

    def to_lo(self):
        return [self.first, self.second]


@dataclass(frozen=True)
class PairType(HiType):
    first: Any
    second: Any

    def __repr__(self):
        return f"Pair{{{self.first.str_short()},{self.second.str_short()}}}"

    def both(self, method, *args):
        return PairType(*(getattr(part, method)(*args) for part in (self.first, self.second)))

    def lo_ty(self):
        return [*self.first.lo_ty(), *self.second.lo_ty()]

    def lower_val(self, value):
        return [*self.first.lower_val(value.first), *self.second.lower_val(value.second)]

    def raise_val(self, *arrays):
        n = len(self.first.lo_ty())
        return Pair(self.first.raise_val(*arrays[:n]), self.second.raise_val(*arrays[n:]))

    def normalize(self):
        return self.both("normalize")

    def to_tangent_aval(self):
        return self.both("to_tangent_aval")

    def vspace_zero(self):
        return pair(self.first.vspace_zero(), self.second.vspace_zero())

    def vspace_add(self, x, y):
        return pair(self.first.vspace_add(first(x), first(y)), self.second.vspace_add(second(x), second(y)))

    def dec_rank(self, size, spec):
        return PairType(self.first.dec_rank(size, spec.first), self.second.dec_rank(size, spec.second))

    def inc_rank(self, size, spec):
        return PairType(self.first.inc_rank(size, spec.first), self.second.inc_rank(size, spec.second))

    def leading_axis_spec(self):
        return PairSpec(self.first.leading_axis_spec(), self.second.leading_axis_spec())

    def shard(self, mesh, manual_axes, check_vma, spec):
        parts = zip((self.first, self.second), (spec.first, spec.second))
        return PairType(*(part.shard(mesh, manual_axes, check_vma, each) for part, each in parts))

    def unshard(self, mesh, check_vma, spec):
        parts = zip((self.first, self.second), (spec.first, spec.second))
        return PairType(*(part.unshard(mesh, check_vma, each) for part, each in parts))

    @aval_method
    def swapped(value):
        return pair(second(value), first(value))

    @aval_property
    def head(value):
        return first(value)

    def _getitem(self, value, index):
        return (first, second)[index](value)

    def _add(self, value, other):
        return pair(first(value) + other, second(value) + other)

    _radd = _add

    def _neg(self, value):
        return pair(-first(value), -second(value))


register_hitype(Pair, lambda value: PairType(xpr.typeof(value.first), xpr.typeof(value.second)))


class MakePair(VJPHiPrimitive):
    def __init__(self, one, two):
        self.in_avals, self.out_aval, self.params = (one, two), PairType(one, two), {}
        super().__init__()

    def expand(self, one, two):
        return Pair(one, two)

    def jvp(self, primals, tangents):
        return pair(*primals), pair(*map(instantiate_zeros, tangents))

    def transpose(self, ct, *accumulators):
        for part, accumulator in zip((first(ct), second(ct)), accumulators):
            if isinstance(accumulator, GradAccum):
                accumulator.accum(part)

    def batch(self, axis_data, args, dims):
        return pair(*args), PairSpec(*dims)


class Part(VJPHiPrimitive):
    def __init__(self, aval, name):
        self.in_avals, self.out_aval, self.params = (aval,), getattr(aval, name), {"name": name}
        super().__init__()

    def expand(self, value):
        return getattr(value, self.name)

    def jvp(self, primals, tangents):
        return self(*primals), Part(self.in_avals[0].to_tangent_aval(), self.name)(*tangents)

    def transpose(self, ct, accumulator):
        kind = self.in_avals[0]
        parts = {name: getattr(kind, name).vspace_zero() for name in ("first", "second")} | {self.name: ct}
        accumulator.accum(pair(**parts))

    def batch(self, axis_data, args, dims):
        return Part(xpr.typeof(args[0]), self.name)(*args), getattr(dims[0], self.name)


def pair(first, second):
    return MakePair(xpr.typeof(first), xpr.typeof(second))(first, second)


def first(value):
    return Part(xpr.typeof(value), "first")(value)


def second(value):
    return Part(xpr.typeof(value), "second")(value)


def product(value):
    return first(value) * jnp.sin(second(value))


P = Pair(jnp.float32(2), jnp.float32(0.5))


def same_pair(got, expected):
    assert type(got) is Pair
    close((got.first, got.second), (expected.first, expected.second))


# -- A quantized vector, whose tangents are arrays


@dataclass(frozen=True)
class Quantized:
    levels: Any
    scale: Any


@dataclass(frozen=True)
class QuantizedType(HiType):
    size: int

    def lo_ty(self):
        return [core.ShapedArray((self.size,), np.int8), F32]

    def lower_val(self, value):
        return [value.levels, value.scale]

    def raise_val(self, levels, scale):
        return Quantized(levels, scale)

    def to_tangent_aval(self):
        return core.ShapedArray((self.size,), np.float32)


register_hitype(Quantized, lambda value: QuantizedType(value.levels.shape[0]))


class Quantize(HiPrimitive):
    def abstract_eval(self, aval):
        return QuantizedType(aval.shape[0]), set()

    def to_lojax(self, x):
        scale = jnp.abs(x).max() / 127
        return Quantized(jnp.round(x / scale).astype(np.int8), scale)

    def jvp(self, primals, tangents):
        return self.bind(*primals), tangents[0]


class Dequantize(HiPrimitive):
    def abstract_eval(self, aval):
        return core.ShapedArray((aval.size,), np.float32), set()

    def to_lojax(self, value):
        return value.levels.astype(np.float32) * value.scale

    def jvp(self, primals, tangents):
        return self.bind(*primals), tangents[0]


quantize, dequantize = Quantize("quantize").bind, Dequantize("dequantize").bind


# -- Operations of arrays as classes


class Power(VJPHiPrimitive):
    def __init__(self, aval, *, power):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"power": power}
        super().__init__()

    def expand(self, x):
        return x**self.power

    def vjp_fwd(self, nzs_in, x):
        return self(x), x

    def vjp_bwd_retval(self, x, ct):
        return (ct * self.power * x ** (self.power - 1),)

    def batch_dim_rule(self, axis_data, dims):
        return dims[0]


def cube(x):
    return Power(xpr.typeof(x), power=3)(x)


class Product(VJPHiPrimitive):
    """A product with a derivative that says by `seen` which arguments have one."""

    seen: ClassVar[list[Any]] = []

    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval, aval), aval, {}
        super().__init__()

    def expand(self, x, y):
        return x * y

    def vjp_fwd(self, nzs_in, x, y):
        self.seen.append(nzs_in)
        return self(x, y), (x, y)

    def vjp_bwd(self, residuals, ct, x_accum, y_accum):
        x, y = residuals
        self.seen.append((type(x_accum), type(y_accum)))
        x_accum.accum(ct * y)
        y_accum.accum(x * ct)

    def batch_dim_rule(self, axis_data, dims):
        return dims[1] if dims[0] is None else dims[0]


def multiply(x, y):
    return Product(xpr.typeof(x))(x, y)


def test_an_operation_of_arrays_as_a_class():
    same(xpr.jit(cube)(jnp.asarray(X)), X**3)
    same(cube(jnp.asarray(X)), X**3)
    for f in (cube, xpr.jit(cube), xpr.checkpoint(cube)):
        slope = xpr.grad(lambda x, f=f: f(x).sum())
        close(slope(X), 3 * X**2)
        close(xpr.jit(slope)(X), 3 * X**2)
        for forward in (xpr.jvp, xpr.jit(xpr.jvp, static_argnums=0)):
            close(forward(f, (X,), (X,)), (X**3, 3 * X**3))
    close(xpr.hessian(lambda x: cube(x).sum())(X), np.diag(6 * X))
    same(str(xpr.make_jaxpr(cube)(2.0)).count("call_hi_primitive"), 1)
    assert primitive_names(xpr.jit(cube).trace(2.0).lojax.jaxpr.jaxpr) == ["integer_pow"]


def test_the_class_of_an_operation_in_loops_and_branches():
    close(lax.scan(lambda c, x: (cube(c) + x, c), 0.5, X)[0], np.float32(((0.5**3 + 0.5) ** 3 - 1) ** 3 + 2))
    by_scan = xpr.grad(lambda a: lax.scan(lambda c, x: (cube(c), None), a, None, length=2)[0])
    close(by_scan(1.1), np.float32(9 * 1.1**8))
    close(xpr.jit(lambda p, x: lax.cond(p, cube, lambda x: x, x))(True, X), X**3)
    close(lax.fori_loop(0, 2, lambda i, x: cube(x), jnp.float32(1.1)), np.float32(1.1**9))
    platform = xpr.jit(lambda x: lax.platform_dependent(x, cpu=cube, default=cube))
    close(platform(X), X**3)


def test_rows_of_an_operation_are_mapped_by_its_rules():
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([3, -1, 2])
    same(xpr.vmap(multiply, (0, None))(x, y), x * y)
    same(xpr.vmap(multiply, (None, 0))(y, x), x * y)
    close(xpr.vmap(xpr.vmap(multiply, (0, None)), (1, None), out_axes=1)(x, 2.0 * jnp.ones(2)[0]), 2 * x)
    mapped = xpr.vmap(multiply, (1, None), out_axes=1)
    close(mapped(x, np.float32([2, 5])), x * np.float32([[2], [5]]))
    close(xpr.grad(lambda x, y: mapped(x, y).sum(), (0, 1))(x, jnp.ones(2)), (np.ones((2, 3), np.float32), x.sum(1)))
    close(xpr.jvp(lambda x: xpr.vmap(multiply, (0, None))(x, y), (x,), (x,))[1], x * y)
    close(xpr.jit(xpr.vmap(xpr.grad(multiply)))(y, y), y)


def test_rules_see_which_arguments_are_differentiated():
    for argnum, accumulators in ((0, (GradAccum, NullAccum)), (1, (NullAccum, GradAccum))):
        Product.seen.clear()
        close(xpr.grad(multiply, argnum)(2.0, 3.0), np.float32((3, 2)[argnum]))
        assert Product.seen == [(argnum == 0, argnum == 1), accumulators]


def test_a_linearization_rule():
    class Linearized(Power):
        vjp_fwd, vjp_bwd_retval = VJPHiPrimitive.vjp_fwd, VJPHiPrimitive.vjp_bwd_retval

        def lin(self, nzs_in, x):
            assert nzs_in == (True,)
            return self(x), x

        def linearized(self, x, tangent):
            return tangent * self.power * x ** (self.power - 1)

    def f(x):
        return Linearized(xpr.typeof(x), power=3)(x)

    for g in (f, xpr.jit(f)):
        y, f_jvp = xpr.linearize(g, 2.0)
        close((y, f_jvp(1.0), xpr.grad(g)(2.0), xpr.jvp(g, (2.0,), (1.0,))[1]), tuple(np.float32([8, 12, 12, 12])))


def test_a_forward_rule_serves_both_modes():
    class Forward(Power):
        vjp_fwd, vjp_bwd_retval = VJPHiPrimitive.vjp_fwd, VJPHiPrimitive.vjp_bwd_retval

        def jvp(self, primals, tangents):
            (x,), (t,) = primals, tangents
            return self(x), t * self.power * x ** (self.power - 1)

    def f(x):
        return Forward(xpr.typeof(x), power=3)(x)

    close((xpr.grad(f)(2.0), xpr.jvp(f, (2.0,), (1.0,))[1]), tuple(np.float32([12, 12])))


def test_results_without_derivatives():
    class WithCount(Power):
        def __init__(self, aval, *, power):
            self.in_avals, self.out_aval, self.params = (aval,), (aval, aval), {"power": power}
            VJPHiPrimitive.__init__(self)

        def expand(self, x):
            return x**self.power, x + 1

        def vjp_fwd(self, nzs_in, x):
            return self(x), x, (True, False)

        def vjp_bwd_retval(self, x, ct):
            return (ct[0] * self.power * x ** (self.power - 1),)

    close(xpr.grad(lambda x: sum(WithCount(xpr.typeof(x), power=3)(x)))(2.0), np.float32(12))


def test_dead_results_are_left_out_by_a_rule():
    class Both(VJPHiPrimitive):
        def __init__(self, aval, with_cosine=True):
            self.in_avals, self.params = (aval,), {"with_cosine": with_cosine}
            self.out_aval = (aval, aval) if with_cosine else (aval,)
            super().__init__()

        def expand(self, x):
            return (jnp.sin(x), jnp.cos(x)) if self.with_cosine else (jnp.sin(x),)

        def dce(self, used):
            if used[1]:
                return True, True, self
            return True, (True, False), Both(self.in_avals[0], False)

    closed = xpr.jaxpr.dce(xpr.make_jaxpr(lambda x: Both(xpr.typeof(x))(x)[0])(1.0))
    (eqn,) = closed.eqns
    assert len(eqn.outvars) == 1 and not eqn.params["_prim"].with_cosine
    close(core.eval_jaxpr(closed.jaxpr, closed.consts, 1.0), [jnp.sin(1.0)])


def test_operations_are_equal_by_their_types_and_parameters():
    three = Power(F32, power=3)
    assert three == Power(F32, power=3) and hash(three) == hash(Power(F32, power=3))
    assert three != Power(F32, power=2) and three != Product(F32) and repr(three) == "Power[{'power': 3}]"


# -- Values of a type


def test_the_type_of_a_value():
    assert xpr.typeof(P) == P.aval == PairType(F32, F32) and isinstance(P.aval, AbstractValue)
    assert not F32.is_high and P.aval.is_high and not P.aval.has_qdd
    closed = xpr.make_jaxpr(product)(P)
    assert closed.is_high and closed.in_avals == [PairType(F32, F32)]
    assert str(closed).startswith("{ lambda ; a:Pair{f32[],f32[]}. let")
    assert not xpr.make_jaxpr(jnp.sin)(1.0).is_high
    assert xpr.eval_shape(lambda p: p, P) == P.aval and xpr.eval_shape(xpr.jit(lambda: P)) == P.aval


def test_an_operation_on_values():
    expected = np.float32(2 * np.sin(0.5))
    for f in (product, xpr.jit(product), xpr.checkpoint(product), xpr.jit(xpr.checkpoint(product))):
        close(f(P), expected)
    same_pair(xpr.jit(lambda p: pair(second(p), first(p)))(P), Pair(P.second, P.first))
    same_pair(xpr.jit(lambda: P)(), P)
    same_pair(xpr.jit(lambda x: Pair(x, x + 1))(2.0), Pair(np.float32(2), np.float32(3)))
    with_flags = xpr.checkpoint(lambda p, x: product(p) * x, prevent_cse=(False, True))
    same_pair(xpr.jit(xpr.grad(with_flags))(P, 2.0), Pair(2 * jnp.sin(0.5), 4 * jnp.cos(0.5)))
    close(xpr.jit(product, backend="reference")(P), expected)
    compiled = xpr.jit(product).lower(P).compile()
    close(compiled(P), expected)
    assert "tensor<f32>" in xpr.jit(product).lower(P).as_text()


def test_derivatives_by_values():
    expected = Pair(jnp.sin(0.5), 2 * jnp.cos(0.5))
    for f in (product, xpr.jit(product), xpr.checkpoint(product)):
        same_pair(xpr.grad(f)(P), expected)
        same_pair(xpr.jit(xpr.grad(f))(P), expected)
        same_pair(xpr.vjp(f, P)[1](jnp.float32(1))[0], expected)
        close(xpr.jvp(f, (P,), (P,))[1], np.float32(2 * np.sin(0.5) + np.cos(0.5)))
        close(xpr.linearize(f, P)[1](P), np.float32(2 * np.sin(0.5) + np.cos(0.5)))
    close(xpr.grad(lambda x: product(pair(x, x * x)))(0.7), xpr.grad(lambda x: x * jnp.sin(x * x))(0.7))
    close(xpr.grad(lambda x, p: x * product(p))(3.0, P), np.float32(2 * np.sin(0.5)))
    stopped = xpr.grad(lambda p: product(p) * product(lax.stop_gradient(p)))
    same_pair(stopped(P), xpr.grad(lambda p: product(p) * np.float32(2 * np.sin(0.5)))(P))
    same_pair(xpr.jit(stopped)(P), stopped(P))
    by_transposition = xpr.linear_transpose(lambda p: 2 * first(p) + second(p), P)(1.0)[0]
    same_pair(by_transposition, Pair(np.float32(2), np.float32(1)))


def test_tangents_may_be_arrays():
    def loss(x):
        return (dequantize(quantize(x)) ** 2).sum()

    around = np.float32(np.round(X * 127 / 2) * 2 / 127)
    for f in (loss, xpr.jit(loss)):
        close(xpr.grad(f)(X), 2 * around)
        close(xpr.jvp(f, (X,), (X,))[1], np.sum(2 * around * X), 1e-4)
    q = xpr.jit(quantize)(X)
    assert type(q) is Quantized and q.levels.dtype == np.int8
    close(xpr.grad(lambda q: dequantize(q).sum())(q), np.ones(3, np.float32))


def test_rows_of_values():
    rows = Pair(jnp.arange(3.0), jnp.asarray(X))
    spec = PairSpec(0, 0)
    close(xpr.vmap(product, in_axes=(spec,), axis_size=3)(rows), jnp.arange(3.0) * jnp.sin(X))
    close(xpr.jit(xpr.vmap(product, in_axes=spec, axis_size=3))(rows), jnp.arange(3.0) * jnp.sin(X))
    swapped = xpr.vmap(lambda p: pair(second(p), first(p)), PairSpec(0, None), PairSpec(None, 0), axis_size=3)
    same_pair(swapped(Pair(jnp.arange(3.0), jnp.float32(4))), Pair(jnp.float32(4), jnp.arange(3.0)))
    by_row = xpr.vmap(xpr.grad(product), in_axes=spec, out_axes=spec, axis_size=3)(rows)
    same_pair(by_row, Pair(jnp.sin(X), jnp.arange(3.0) * jnp.cos(X)))


@pytest.mark.parametrize("transform", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_values_in_loops_and_branches(transform):
    rows = Pair(jnp.arange(3.0), jnp.asarray(X))

    def along(p, rows):
        return lax.scan(
            lambda c, row: (pair(product(c) + first(row), second(c)), pair(product(c), second(row))), p, rows
        )

    def by_hand():
        c, ys = P, []
        for a, b in zip(np.arange(3.0), X):
            ys.append((product(c), b))
            c = Pair(product(c) + a, c.second)
        return c, Pair(*(jnp.stack([jnp.float32(y[i]) for y in ys]) for i in (0, 1)))

    for got, expected in zip(transform(along)(P, rows), by_hand()):
        same_pair(got, expected)
    steps = transform(lambda p: lax.while_loop(lambda p: first(p) < 10, lambda p: pair(first(p) + 3, second(p)), p))
    same_pair(steps(P), Pair(jnp.float32(11), P.second))
    choose = transform(lambda flag, p: lax.cond(flag, lambda p: p, lambda p: pair(second(p), first(p)), p))
    same_pair(choose(True, P), P)
    same_pair(choose(False, P), Pair(P.second, P.first))
    closed_over = transform(lambda x: lax.scan(lambda c, _: (c + product(P), None), x, None, length=2)[0])
    close(closed_over(1.0), np.float32(1 + 4 * np.sin(0.5)))
    of_carry = xpr.grad(
        lambda p: product(lax.scan(lambda c, _: (pair(second(c), first(c)), None), p, None, length=3)[0])
    )
    same_pair(transform(of_carry)(P), xpr.grad(lambda p: second(p) * jnp.sin(first(p)))(P))


def test_values_in_functions_with_rules():
    @xpr.custom_vjp
    def f(p):
        return product(p)

    f.defvjp(lambda p: (f(p), p), lambda p, ct: (pair(ct * 10, second(p)),))
    for g in (f, xpr.jit(f)):
        close(g(P), product(P))
        same_pair(xpr.grad(g)(P), Pair(jnp.float32(10), P.second))

    @xpr.custom_jvp
    def h(p):
        return product(p)

    h.defjvp(lambda primals, tangents: (h(*primals), 10 * first(*tangents)))
    same_pair(xpr.jit(xpr.grad(h))(P), Pair(jnp.float32(10), jnp.float32(0)))
    names = primitive_names(xpr.jit(f).trace(P).lojax.jaxpr.jaxpr)
    assert "custom_vjp_call" not in names and not xpr.jit(f).trace(P).lojax.jaxpr.is_high


def test_refs_that_hold_values():
    @xpr.jit
    def f(p, q):
        ref = xpr.new_ref(p)
        ref[...] = pair(second(ref[...]), first(q))
        return ref.get()

    same_pair(f(P, P), Pair(P.second, P.first))
    ref = xpr.new_ref(P)
    xpr.jit(lambda r: r.set(pair(first(r[...]) + 1, second(r[...]))))(ref)
    same_pair(ref[...], Pair(jnp.float32(3), P.second))
    empty = xpr.jit(lambda: xpr.freeze(xpr.empty_ref(QuantizedType(3))))()
    assert type(empty) is Quantized and empty.levels.shape == (3,)
    message = "get: a Ref of type Ref{Pair{f32[],f32[]}} holds a value of a user's type, which is read and written as a"
    with pytest.raises(RefError, match=re.escape(message)):
        ref[0]


def test_values_on_several_devices():
    mesh = xpr.make_mesh((1,), ("x",))
    spec, turned = PairPspec(xpr.P("x"), xpr.P()), PairPspec(xpr.P(), xpr.P("x"))
    rows = Pair(jnp.arange(4.0), jnp.asarray(X))
    swap = xpr.shard_map(lambda p: pair(second(p), first(p)), mesh=mesh, in_specs=(spec,), out_specs=turned)
    for f in (swap, xpr.jit(swap)):
        same_pair(f(rows), Pair(rows.second, rows.first))
    same(xpr.shard_map(cube, mesh=mesh, in_specs=xpr.P("x"), out_specs=xpr.P("x"))(X), X**3)
    same(xpr.pmap(cube)(X[None]), X[None] ** 3)
    box = Box(1.0)
    with refused(
        RefError, "takes or closes over a mutable value of type Box, which all devices would share. Pass what"
    ):
        xpr.shard_map(lambda x: x * box.get(), mesh=mesh, in_specs=xpr.P("x"), out_specs=xpr.P("x"))(X)
    with refused(
        UnsupportedRule, "xla_pmap: it maps a function of values of users' types, which shard_map alone provides"
    ):
        xpr.pmap(lambda x: x * product(P))(X[None])


class KeptProduct(VJPHiPrimitive):
    """The product of a pair's parts, whose rule keeps the pair."""

    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), aval.first, {}
        super().__init__()

    def expand(self, value):
        return value.first * value.second

    def vjp_fwd(self, nzs_in, value):
        return self(value), value

    def vjp_bwd_retval(self, value, ct):
        return (pair(ct * second(value), ct * first(value)),)


def test_rules_keep_values():
    def f(p):
        return KeptProduct(xpr.typeof(p))(p)

    for g in (f, xpr.jit(f), xpr.checkpoint(f)):
        same_pair(xpr.grad(g)(P), Pair(P.second, P.first))
    squared = xpr.grad(lambda p: lax.scan(lambda c, _: (c * f(p), None), 1.0, None, length=2)[0])
    same_pair(squared(P), Pair(jnp.float32(1), jnp.float32(4)))
    spec = PairPspec(xpr.P("x"), xpr.P("x"))
    mesh = xpr.make_mesh((1,), ("x",))
    rows = Pair(jnp.arange(3.0), jnp.asarray(X))
    g = xpr.shard_map(f, mesh=mesh, in_specs=spec, out_specs=xpr.P("x"))
    same_pair(xpr.grad(lambda p: g(p).sum())(rows), Pair(rows.second, rows.first))
    inside = xpr.shard_map(
        lambda p: f(pair(jnp.sin(second(p)), first(p))), mesh=mesh, in_specs=(spec,), out_specs=xpr.P("x")
    )
    with refused(UnsupportedRule, "shard_map: its derivative keeps a value of a user's type that is computed inside"):
        xpr.grad(lambda p: inside(p).sum())(rows)


def test_attributes_and_operators_that_a_type_defines():
    f = xpr.jit(lambda p: (p.head, p[1], p.swapped(), 1 + (p + 2.0), -p))
    head, last, swapped, plus, minus = f(P)
    close((head, last), (P.first, P.second))
    same_pair(swapped, Pair(P.second, P.first))
    same_pair(plus, Pair(P.first + 3, P.second + 3))
    same_pair(minus, Pair(-P.first, -P.second))


# -- Mutable values


@pytest.mark.parametrize("transform", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_a_box_is_changed_by_functions(transform):
    given, closed_over = Box(1.0), Box(jnp.zeros(2))

    def f(box, x):
        assert isinstance(box, Box)
        box.set(box.get() + x)
        closed_over.set([closed_over.get(), x])
        assert cur_qdd(closed_over).treedef == xpr.tree.structure([0, 0])
        inner = new_box()
        inner.set(x)
        return inner.get() + box.get()

    assert transform(f)(given, 2.0) == 5 and given.get() == 3
    same(closed_over.get()[0], np.zeros(2, np.float32))
    assert closed_over.get()[1] == 2


def test_a_function_is_traced_once_for_each_state():
    box, traced = Box(None), []

    @xpr.jit
    def f():
        traced.append(cur_qdd(box))
        held = box.get()
        box.set(0 if held is None else held + 1)

    for _ in range(4):
        f()
    assert len(traced) == 2 and box.get() == 3
    box.set(None)
    f()
    f()
    assert len(traced) == 2 and box.get() == 1
    box.set(1.5)
    f()
    assert len(traced) == 3 and box.get() == 2.5


def test_boxes_in_calls_of_calls():
    @xpr.jit
    def f(x):
        box = Box(x)

        @xpr.jit
        def inner(y):
            box.set([*xpr.tree.leaves(box.get()), y])

        inner(1.0)
        inner(2.0)
        return box.get()

    assert [float(x) for x in f(0.0)] == [0.0, 1.0, 2.0]
    compiled_box = Box(1.0)
    compiled = xpr.jit(lambda box: box.set(box.get() + 1)).lower(compiled_box).compile()
    compiled(compiled_box)
    compiled(compiled_box)
    assert compiled_box.get() == 3


@pytest.mark.parametrize("transform", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_boxes_in_loops_and_branches(transform):
    box = Box(1.0)
    transform(lambda: lax.scan(lambda c, _: (box.set(box.get() * 2), c)[::-1], None, None, length=5) and None)()
    assert box.get() == 32
    transform(lambda: lax.while_loop(lambda i: box.get() > 3, lambda i: (box.set(box.get() / 2), i + 1)[1], 0))()
    assert box.get() == 2

    def choose(flag):
        lax.cond(flag, lambda: box.set(box.get() + 1), lambda: None)

    transform(choose)(True)
    transform(choose)(False)
    assert box.get() == 3


def test_boxes_and_derivatives():
    box = Box(0.0)

    def f(x):
        box.set(box.get() + lax.stop_gradient(2 * x))
        return x * x

    for g in (f, xpr.jit(f)):
        close(xpr.grad(g)(3.0), np.float32(6))
    close(box.get(), np.float32(12))
    kept = Box(0.0)

    @xpr.custom_vjp
    def tapped(x):
        return x

    tapped.defvjp(lambda x: (x, None), lambda _, ct: (kept.set(ct), (ct,))[1])
    for g in (lambda x: 3 * tapped(x), xpr.jit(lambda x: 3 * tapped(x))):
        kept.set(0.0)
        close(xpr.grad(g)(1.0), np.float32(3))
        close(kept.get(), np.float32(3))
    primal, tangent = Box(5.0), Box(1.0)
    xpr.jvp(xpr.jit(lambda box, x: box.set(box.get() + x)), (primal, 2.0), (tangent, 10.0))
    close((primal.get(), tangent.get()), tuple(np.float32([7, 11])))


def test_boxes_hold_values_of_types():
    box = Box([P, 1.0])
    xpr.jit(lambda: box.set([second(box.get()[0]), box.get()[0]]))()
    close(box.get()[0], P.second)
    same_pair(box.get()[1], P)


class Counter:
    """A mutable value of a class of one's own, whose state is empty."""

    def __init__(self, count):
        self.count = count

    def cur_qdd(self):
        return ()


class CounterType(MutableHiType):
    def __eq__(self, other):
        return isinstance(other, CounterType)

    def __hash__(self):
        return hash(CounterType)

    def __repr__(self):
        return "Counter"

    def lo_ty_qdd(self, state):
        return [core.ShapedArray((), np.int32)]

    def new_from_loval(self, state, count):
        return Counter(count)

    def read_loval(self, state, value):
        return [read_p.bind(value)]

    def update_from_loval(self, state, value, count):
        write_p.bind(value, count)


register_hitype(Counter, lambda value: CounterType())


class Read(HiPrimitive):
    def abstract_eval(self, counter):
        return core.ShapedArray((), np.int32), set()

    def to_lojax(self, counter):
        return counter.count


class Write(HiPrimitive):
    multiple_results = True

    def abstract_eval(self, counter, count):
        counter.mutable_qdd.update(())
        return [], {"ordered"}

    def to_lojax(self, counter, count):
        counter.count = count
        return []


read_p, write_p = Read("read"), Write("write")


def test_a_mutable_class_of_ones_own():
    counter = Counter(jnp.int32(3))
    step = xpr.jit(lambda c: write_p.bind(c, read_p.bind(c) + 1) and None)
    step(counter)
    step(counter)
    assert counter.count == 5 and xpr.typeof(counter) == CounterType() and type(counter.aval) is AvalQDD
    assert str(xpr.make_jaxpr(read_p.bind)(counter)) == "{ lambda ; a:Counter. let b:i32[] = read a in (b,) }"


def test_programs_with_mutable_values_are_copied():
    closed = xpr.make_jaxpr(lambda box, x: box.set(box.get() + x))(Box(1.0), 2.0)
    copied = copy.deepcopy(closed.jaxpr)
    assert str(copied) == str(closed) and copied.in_avals == closed.in_avals and copied.is_high
    assert list(map(str, closed.effects)) == ["BoxEffect"]


# -- Errors


def refused(error, message):
    return pytest.raises(error, match=re.escape(message))


def test_what_a_class_lacks_is_named():
    @dataclass(frozen=True)
    class Bare:
        x: Any

    @dataclass(frozen=True)
    class BareType(HiType):
        pass

    register_hitype(Bare, lambda value: BareType())
    with refused(NotImplementedError, "The class BareType must define lo_ty: its values become arrays in programs"):
        xpr.jit(lambda b: b)(Bare(1.0))
    with refused(NotImplementedError, "The class BareType must define to_tangent_aval: its values have tangents."):
        xpr.jvp(lambda b: 1.0, (Bare(1.0),), (Bare(1.0),))
    operation = HiPrimitive("operation")
    with refused(NotImplementedError, "Tracing of the operation operation needs the method abstract_eval, which its"):
        xpr.make_jaxpr(operation.bind)(1.0)
    with refused(NotImplementedError, "Evaluation of the operation operation needs the method to_lojax"):
        operation.bind(1.0)
    with refused(NotImplementedError, "Reverse mode of the operation quantize needs the method transpose"):
        xpr.linear_transpose(Quantize("quantize").bind, X)(X)

    class Nothing(VJPHiPrimitive):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

    nothing = Nothing(F32)
    for f, method in (
        (nothing, "expand"), (xpr.grad(nothing), "jvp"), (xpr.vmap(Nothing(F32)), "batch or batch_dim_rule"),
    ):  # fmt: skip
        argument = np.zeros(3, np.float32) if "batch" in method else jnp.float32(1)
        with refused(NotImplementedError, f"of the operation Nothing[{{}}] needs the method {method}"):
            f(argument)


def test_constructors_of_operations_are_checked():
    class Empty(VJPHiPrimitive):
        pass

    with refused(AttributeError, "Empty: its __init__ should set self.in_avals before it calls super().__init__()."):
        Empty()

    class TwoRules(Power):
        def vjp_bwd(self, residuals, ct, accumulator):
            pass

    with refused(AttributeError, "TwoRules should not define both vjp_bwd and vjp_bwd_retval: one of them is called."):
        TwoRules(F32, power=2)
    with refused(TypeError, "Power: it was made for arguments of types (f32[]), and is called with (f32[3])."):
        xpr.make_jaxpr(Power(F32, power=2))(X)


def test_registered_classes_have_no_other_type():
    class HasType:
        aval = 3

    with refused(
        TypeError, "register_hitype: HasType has an attribute `aval`, which is what gives values their types."
    ):
        register_hitype(HasType, lambda value: None)


def test_arrays_and_values_are_not_mixed_up():
    with refused(
        TypeError, "sin takes arrays, and its operands are Pair{f32[],f32[]}, of which some are values of users'"
    ):
        lax.sin_p.bind(P)
    with refused(
        TypeError, "A traced value of type Pair{f32[],f32[]} has no operator __mul__: its class PairType does"
    ):
        xpr.jit(lambda p: p * 2)(P)
    wrong = Quantized(X, jnp.float32(1))
    message = """A value of type QuantizedType(size=3) consists of other arrays than its type says:
  QuantizedType.lo_ty    i8[3], f32[]
  the value    f32[3], f32[]"""
    with refused(TypeError, message):
        xpr.jit(dequantize)(wrong)
    with refused(
        UnsupportedRule, "An object of a user's class was made of arrays that depend on what is differentiated"
    ):
        xpr.grad(lambda x: xpr.jit(lambda x: product(Pair(x, x)))(x))(1.0)
    with refused(AttributeError, "A value of type Box is no array, and has no dtype."):
        jnp.sum(Box(1.0))
    with refused(
        UnsupportedRule, "scan_until holds a function of values of a user's type, and such functions are for jit"
    ):
        lax.scan(lambda c, _: (pair(second(c), first(c)), None), P, None, length=3, until=lambda c: first(c) > 3)
    with refused(TypeError, "cur_qdd takes a mutable value, and got one of type f32[]."):
        cur_qdd(1.0)


def test_tangents_of_another_type():
    with refused(
        ArgumentError, "jvp: the tangent of a value of type Pair{f32[],f32[]} has type Pair{f32[],f32[]}, and"
    ):
        xpr.jvp(product, (P,), (Pair(X, X),))
    with refused(
        ArgumentError, "vjp: the cotangent of a value of type Pair{f32[],f32[]} has type Pair{f32[],f32[]}, and"
    ):
        xpr.vjp(lambda p: p, P)[1](Pair(X, X))
    with refused(ArgumentError, "accum: the operand's cotangents are of type f32[], and one of type f32[3] was added."):
        GradAccum(F32).accum(X)
    with refused(TypeError, "Gradient only defined for scalar-output functions."):
        xpr.grad(lambda p: p)(P)


def test_files_hold_no_values_of_types(tmp_path):
    with refused(NotImplementedError, "save: product reads or writes refs, or has values of users' types, which a"):
        xpr.jit(product).lower(P).compile().save(tmp_path / "product")
    with refused(NotImplementedError, "export: product takes, returns or closes over a value of a user's type"):
        xpr.export.export(xpr.jit(product))(P)
    cubes = xpr.export.export(xpr.jit(cube))(X)
    close(cubes.call(X), X**3)


@dataclass(frozen=True)
class Meters:
    x: Any


@dataclass(frozen=True)
class MetersType(HiType):
    """A type whose zero is an object, and whose sums are made by a method."""

    def lo_ty(self):
        return [F32]

    def lower_val(self, value):
        return [value.x]

    def raise_val(self, x):
        return Meters(x)

    def to_tangent_aval(self):
        return self

    def vspace_zero(self):
        return Meters(np.float32(0))

    def vspace_add(self, one, two):
        return add_meters(one, two)


register_hitype(Meters, lambda value: MetersType())


class AddMeters(HiPrimitive):
    def abstract_eval(self, one, two):
        return MetersType(), set()

    def to_lojax(self, one, two):
        return Meters(one.x + two.x)

    def jvp(self, primals, tangents):
        return self.bind(*primals), self.bind(*map(instantiate_zeros, tangents))

    def transpose(self, ct, one, two):
        return [ct, ct]


class Half(HiPrimitive):
    def abstract_eval(self, aval):
        return F32, set()

    def to_lojax(self, value):
        return value.x / 2

    def jvp(self, primals, tangents):
        return self.bind(*primals), self.bind(*tangents)

    def transpose(self, ct, value):
        return [meters(ct / 2)]


class FromArray(HiPrimitive):
    def abstract_eval(self, aval):
        return MetersType(), set()

    def to_lojax(self, x):
        return Meters(x)


add_meters, half, meters = AddMeters("add_meters").bind, Half("half").bind, FromArray("meters").bind


def test_sums_and_zeros_of_a_type():
    m = Meters(jnp.float32(3))
    for f in (
        lambda m: half(m) + half(m),
        lambda m: lax.scan(lambda c, _: (c + half(m), None), 0.0, None, length=2)[0],
    ):
        close(xpr.grad(f)(m).x, np.float32(1))
        close(xpr.jit(xpr.grad(f))(m).x, np.float32(1))
    same(xpr.grad(lambda m: 2.0)(m).x, np.float32(0))
    assert xpr.jit(xpr.grad(lambda m: 2.0))(m).x == 0

    class Squared(VJPHiPrimitive):
        def __init__(self):
            self.in_avals, self.out_aval, self.params = (MetersType(),), F32, {}
            super().__init__()

        def expand(self, value):
            return value.x**2

        def vjp_fwd(self, nzs_in, value):
            return self(value), value

        def vjp_bwd_retval(self, value, ct):
            return (meters(ct * 4 * half(value)),)

    close(xpr.jit(xpr.grad(lambda m: Squared()(m)))(m).x, np.float32(6))
    by_branch = xpr.grad(
        lambda x, p: lax.cond(p, lambda x: Squared()(meters(lax.stop_gradient(x))) * x, lambda x: x, x)
    )
    close(xpr.jit(by_branch)(3.0, True), np.float32(9))
    kept = xpr.grad(lambda m, p: lax.cond(p, lambda m: Squared()(add_meters(m, m)), lambda m: half(m), m))
    with refused(
        UnsupportedRule, "cond: only some branches keep a value of type MetersType(), whose zero is an object."
    ):
        xpr.jit(kept)(m, True)


def test_how_values_are_mapped_is_checked():
    with refused(
        ValueError, "of type Pair{f32[3],f32[3]} is mapped as PairSpec(first=0, second=0), and out_axes say 0"
    ):
        xpr.vmap(lambda p: p, in_axes=PairSpec(0, 0), axis_size=3)(Pair(X, X))
    with refused(ValueError, "inconsistent sizes for array axes"):
        xpr.vmap(lambda p, x: x, in_axes=(PairSpec(0, 0), 0), axis_size=3)(Pair(X, X), jnp.ones(2))


def test_mutable_values_that_loops_and_branches_leave_otherwise():
    box = Box([1.0])

    def grow(i):
        box.set(box.get() * 2)
        return i + 1

    with refused(
        TypeError, "while_loop: type-changing mutations not allowed in loops: the body changes the type of what"
    ):
        lax.while_loop(lambda i: i < 5, grow, 0)
    with refused(TypeError, "scan: type-changing mutations not allowed in loops"):
        lax.scan(lambda c, _: (grow(c), None), 0, None, length=2)
    with refused(TypeError, "while_loop: the predicate changes a mutable value. Change it in the body."):
        lax.while_loop(lambda i: (box.set([i + box.get()[0]]), i < 5)[1], lambda i: i + 1, 0.0)
    with refused(TypeError, "cond: the branches leave mutable values with contents of different types."):
        xpr.jit(lambda p: lax.cond(p, lambda: box.set(1), lambda: None))(True)
    with refused(
        TypeError, "scan: the carry holds a mutable value of type Box, and loops don't carry those. Close over it"
    ):
        lax.scan(lambda c, _: (c, None), Box(1.0), None, length=2)
    with refused(
        TypeError, "while_loop: the carry holds a mutable value of type Box, and loops don't carry those. Close over"
    ):
        lax.while_loop(lambda c: True, lambda c: c, Box(1.0))


@pytest.mark.parametrize("transform", [lambda f: f, xpr.jit], ids=["eager", "traced"])
def test_a_function_gets_a_mutable_value_once(transform):
    box = Box(1.0)
    aliased = "jit: only one reference to a mutable array can be passed or closed over, and for jit a mutable value of"
    with refused(RefError, f"{aliased} type Box appeared at both a and b of"):
        transform(lambda x: xpr.jit(lambda a, b: a.set(x))(box, box))(1.0)
    with refused(RefError, f"{aliased} type Box was closed over and passed as the argument a of"):
        transform(lambda x: xpr.jit(lambda a: a.set(box.get()))(box))(1.0)


def test_differentiated_values_are_not_put_into_boxes_from_outside():
    box = Box(0.0)
    with refused(TypeError, "A value that is being differentiated is put into a Box that holds no derivatives: it was"):
        xpr.grad(lambda x: (box_set(box, x), x)[1])(1.0)
    with refused(NotImplementedError, "vmap of the operation box_set needs the method batch"):
        xpr.vmap(lambda x: box.set(x))(X)
    assert box_get(box) == 0.0


def test_what_stands_for_zeros():
    assert is_undefined_primal(core.Linear(F32)) and not is_undefined_primal(1.0)
    same(instantiate_zeros(Zero(F32)), jnp.float32(0))
    accumulator = NullAccum(F32)
    accumulator.accum(1.0)
    assert accumulator.value is None and repr(accumulator) == "NullAccum(f32[])"
    counting = GradAccum(F32)
    counting.accum(None)
    counting.accum(Zero(F32))
    assert counting.value is None
    counting.accum(jnp.float32(2))
    counting.accum(jnp.float32(3))
    same(counting.value, jnp.float32(5))
