"""Interpreters with JAX's methods: one that also computes an error bound runs alike on xpr and on jax."""

import gc
import importlib
import weakref

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import JAX
from xpr import core, extend, lax
from xpr.extend.core import traces
from xpr.extend.core.primitives import jit_p
from xpr.extend.source_info_util import user_context


def library(name):
    """A library, its core, and the class of its interpreters."""
    if name == "xpr":
        core = importlib.import_module("xpr.extend.core")
        return xpr, core, traces.Trace, xpr.core.Tracer
    if JAX is None:
        pytest.skip("compares with jax, which is not installed")
    core = importlib.import_module("jax._src.core")
    return JAX, core, core.Trace, core.Tracer


def scaled(lib, core, Trace, Tracer):
    """A transformation of functions: values are kept as pairs whose product they are."""

    class ScaledTracer(Tracer):
        def __init__(self, trace, value, scale):
            self._trace, self.value, self.scale = trace, value, scale

        aval = property(lambda self: lib.typeof(self.value))

        def full_lower(self):
            return self

    class ScaledTrace(Trace):
        def __init__(self, parent, tag, seen):
            self.parent_trace, self.tag, self.seen = parent, tag, seen
            super().__init__()

        def pair(self, x):
            known = isinstance(x, ScaledTracer) and x._trace.tag is self.tag
            return (x.value, x.scale) if known else (x, 1.0)

        def plain(self, x):
            value, scale = self.pair(x)
            return value * scale if scale is not None else value

        def process_primitive(self, primitive, tracers, params):
            self.seen.append("jit" if primitive is jit_p else primitive.name)
            with core.set_current_trace(self.parent_trace):
                if primitive.name == "mul":
                    (x, s), (y, t) = map(self.pair, tracers)
                    return ScaledTracer(self, x * y, s * t)
                if primitive is jit_p:
                    assert params["inline"] is False and params["name"]
                outs = primitive.bind(*map(self.plain, tracers), **params)
            if primitive.multiple_results:
                return [ScaledTracer(self, out, 1.0) for out in outs]
            return ScaledTracer(self, outs, 1.0)

        def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
            self.seen.append("rule")
            with core.set_current_trace(self.parent_trace):
                values = [self.plain(x) for x in tracers]
            avals = tuple(map(lib.typeof, values))
            params = {"subfuns": (fun, jvp), "symbolic_zeros": symbolic_zeros}
            outs = primitive.bind_with_trace(self.parent_trace, tuple(values), avals, params)
            return [ScaledTracer(self, out, 1.0) for out in outs]

    def transform(fun, seen):
        def run(x):
            tag = core.TraceTag()
            with core.take_current_trace() as parent:
                trace = ScaledTrace(parent, tag, seen)
                with core.set_current_trace(trace):
                    out = fun(ScaledTracer(trace, x, 2.0))
                with core.set_current_trace(parent):
                    return trace.plain(out)

        return run

    return transform


@pytest.mark.parametrize("name", ["xpr", "jax"])
def test_an_interpreter(name):
    lib, core, *classes = library(name)
    transform = scaled(lib, core, *classes)
    np_, lax = (importlib.import_module(f"{lib.__name__}.{part}") for part in ("numpy", "lax"))

    @lib.custom_jvp
    def cube(x):
        return lax.integer_pow(x, 3)

    @cube.defjvp
    def _(primals, tangents):
        return cube(*primals), 100.0 * tangents[0]

    twice = lib.jit(lambda x: np_.sin(x) * 2.0)
    seen = []
    f = transform(lambda x: lax.add(twice(lax.mul(x, x)), cube(x)), seen)
    x = np_.arange(3.0)
    np.testing.assert_allclose(f(x), 2 * np.sin(4 * np.arange(3.0) ** 2) + 8 * np.arange(3.0) ** 3, rtol=1e-5)
    assert seen == ["mul", "jit", "rule", "add"]
    np.testing.assert_allclose(lib.jit(f)(x), f(x), rtol=1e-5)
    np.testing.assert_allclose(lib.vmap(f)(x), f(x), rtol=1e-5)
    np.testing.assert_allclose(lib.grad(lambda x: transform(cube, [])(x))(1.0), 200.0)  # by the rule


def test_what_must_be_defined():
    class Empty(traces.Trace):
        pass

    trace, bottom = Empty(), xpr.core.context.trace
    with xpr.core.current(trace):
        with pytest.raises(NotImplementedError, match="Empty must define process_primitive"):
            jnp.sin(1.0)
        trace.parent_trace = bottom
        with pytest.raises(NotImplementedError, match="must define process_custom_jvp_call"):
            custom = xpr.custom_jvp(lambda x: x)
            custom.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
            custom(1.0)
    assert trace.parent is bottom and trace.full_raise(3) == 3
    assert traces.full_lower(3) == 3


def test_all_interpreters_are_traces():
    assert isinstance(core.interpreter.context.trace, traces.Trace)
    assert not isinstance(core.interpreter.context.trace, type("Other", (traces.Trace,), {}))


def test_concrete_or_error():
    concrete_or_error = importlib.import_module("xpr.extend.core").concrete_or_error
    assert concrete_or_error(None, 2) == 2 and concrete_or_error(int, np.float32(2.5)) == 2
    assert xpr.grad(lambda x: float(concrete_or_error(None, x)) * x)(3.0) == 3
    with pytest.raises(xpr.errors.ConcretizationTypeError, match="(?s)concrete_or_error needs .*size is static"):
        xpr.jit(lambda x: concrete_or_error(None, x, "The size is static."))(1)


def test_control_flow_takes_closed_jaxprs():
    """With constants, which become operands, and without the parameters that JAX's primitives have not."""
    c, x = jnp.array([1.0, 2.0]), jnp.ones(2)
    plus, minus = xpr.make_jaxpr(lambda x: x + c)(x), xpr.make_jaxpr(lambda x: x - 1)(x)
    below = xpr.make_jaxpr(lambda x: (x < 4 * c).all())(x)
    step = xpr.make_jaxpr(lambda total, y: (total + y * c, total))(x, x)

    def branch(x):
        return lax.cond_p.bind(np.int32(1), x, branches=(minus, plus))[0]

    def loop(x):
        return lax.while_p.bind(x, cond_nconsts=0, cond_jaxpr=below, body_nconsts=0, body_jaxpr=plus)[0]

    def scan(x):
        like = {"length": 3, "reverse": False, "num_consts": 0, "num_carry": 1, "unroll": 1}
        return lax.scan_p.bind(x, jnp.ones((3, 2)), jaxpr=step, **like)[0]

    for f, expected in ((branch, [2, 3]), (loop, [4, 7]), (scan, [4, 7])):
        assert f(x).tolist() == xpr.jit(f)(x).tolist() == xpr.vmap(f)(x[None])[0].tolist() == expected
        assert xpr.jvp(f, (x,), (x,))[1].tolist() == [1, 1]
    eqn = xpr.make_jaxpr(branch)(x).jaxpr.eqns[-1]
    eqn = eqn.replace(params={**eqn.params, "branches": tuple(map(core.ClosedJaxpr, eqn.params["branches"]))})
    with pytest.raises(TypeError, match="cond: the jaxprs of an equation have no constants"):
        eqn.primitive.type_of(tuple([v.aval for v in eqn.invars]), eqn.params)


def test_operations_take_the_parameters_of_jax_that_have_no_effect():
    x = jnp.arange(2.0)
    assert lax.exp_p.bind(x, accuracy=None).tolist() == lax.exp(x).tolist()
    for f in (
        lambda x: lax.reshape_p.bind(x, new_sizes=(2, 1), dimensions=None, sharding=None),
        lambda x: lax.broadcast_in_dim_p.bind(x, shape=(2, 1), broadcast_dimensions=(0,), sharding=None),
    ):
        assert f(x).shape == xpr.jit(f)(x).shape == (2, 1)
    with pytest.raises(TypeError, match="`exp` has no parameter accuracy"):
        lax.exp_p.bind(x, accuracy="highest")
    with pytest.raises(TypeError, match="`exp` has no parameter axis"):
        lax.exp_p.bind(x, axis=None)


def test_equations_take_the_parameters_of_jax_that_have_no_effect():
    jaxpr = xpr.make_jaxpr(lambda x: lax.broadcast_in_dim(x, (2, 3), (0,)))(jnp.arange(2.0))
    (eqn,) = jaxpr.jaxpr.eqns
    like = {"shape": (2, 3), "broadcast_dimensions": (0,), "sharding": None}
    for changed in (
        eqn.replace(params=like),
        extend.core.new_jaxpr_eqn(eqn.invars, eqn.outvars, eqn.primitive, like),
    ):
        assert changed.params == eqn.params and like["sharding"] is None
        (out,) = extend.core.jaxpr_as_fun(jaxpr.replace(jaxpr=jaxpr.jaxpr.replace(eqns=[changed])))(jnp.arange(2.0))
        assert out.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert eqn.replace(params={**like, "axis": None}).params == {**eqn.params, "axis": None}


def test_operations_have_the_line_of_an_equation_in_a_user_context():
    jaxpr = xpr.make_jaxpr(lambda x: xpr.named_scope("sine")(lax.sin)(x))(1.0).jaxpr
    (eqn,) = jaxpr.eqns

    def again(x, traceback):
        with user_context(traceback):
            return eqn.primitive.bind(lax.neg(x))

    (negated, sine) = xpr.make_jaxpr(lambda x: again(x, eqn.source_info.traceback))(1.0).jaxpr.eqns
    assert negated.source_info == sine.source_info == eqn.source_info and sine.source_info.name_stack == "sine"
    of_call = xpr.make_jaxpr(lambda x: again(x, None) + 1)(1.0).jaxpr.eqns
    assert not {eqn.source_info} & {e.source_info for e in of_call} and of_call[-1].source_info.name_stack == ""
    with pytest.raises(KeyError), user_context(eqn.source_info.traceback):
        raise KeyError
    assert core.interpreter.context.source is None


def test_a_call_takes_the_parameters_of_jax():
    jaxpr = xpr.make_jaxpr(lambda x: x * 2.0)(1.0).jaxpr
    f = lambda x: jit_p.bind(x, jaxpr=jaxpr, name="f", inline=False)[0]
    assert xpr.jit(f)(3.0) == f(3.0) == 6
    assert xpr.grad(xpr.jit(f))(3.0) == 2


TRACES = {
    "grad": lambda f, x: xpr.grad(f)(x),
    "vjp": lambda f, x: xpr.vjp(f, x)[1](1.0),
    "linearize": lambda f, x: xpr.linearize(f, x)[1](x),
    "hessian": lambda f, x: xpr.hessian(f)(x),
    "grad of vmap": lambda f, x: xpr.grad(lambda x: xpr.vmap(f)(x[None]).sum())(x),
    "make_jaxpr": lambda f, x: xpr.make_jaxpr(lambda y: f(x) * y)(1.0),
    "grad of jit": lambda f, x: xpr.grad(lambda x: xpr.jit(lambda y: y * f(x))(2.0))(x),
}


@pytest.mark.parametrize("name", TRACES)
def test_traces_that_have_ended_keep_no_arrays(name):
    """Without the garbage collector, which may not run for long while few and large arrays are made."""
    made = []

    def f(x):
        y = jnp.sin(x)
        value = y
        while isinstance(value, core.Tracer) and value.concrete() is not None:
            value = value.concrete()
        if isinstance(value, xpr.Array):
            made.append(weakref.ref(value))
        return (y * y).sum()

    x = jnp.arange(3.0)
    gc.disable()
    try:
        TRACES[name](f, x)
        assert [each() for each in made] == [None] * len(made)
    finally:
        gc.enable()
    assert made or name == "hessian" or "vmap" in name
