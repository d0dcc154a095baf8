"""jit: how often it traces, what it takes, what it keeps, and what it says when it can't."""

import dataclasses
import gc
import inspect
import operator
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import traceback
import weakref
from functools import partial, reduce, wraps
from typing import Any, NamedTuple

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import checkify, core, errors, lax, tree, tree_util
from xpr.backend import mappings, runtime
from xpr.config import settings


class Counted:
    """A function that counts how often it is traced."""

    def __init__(self, fun):
        self.fun, self.count = fun, 0
        self.__name__ = "counted"

    def __call__(self, *args, **kwargs):
        self.count += 1
        return self.fun(*args, **kwargs)


def test_traced_once_per_abstract_signature():
    fun = Counted(lambda x, y: x + y)
    jitted = xpr.jit(fun)
    for _ in range(3):
        assert float(jitted(1.0, 2.0)) == 3
    assert fun.count == 1
    jitted(jnp.ones(3), 2.0)
    jitted(jnp.zeros(3), 5.0)
    assert fun.count == 2
    jitted(1, 2)
    assert fun.count == 3


def test_two_jits_of_one_function_share_their_traces():
    fun = Counted(lambda x: x + 1)
    xpr.jit(fun)(1.0)
    xpr.jit(fun)(2.0)
    assert fun.count == 1


def test_x64_setting_is_part_of_the_signature():
    jitted = xpr.jit(lambda: jnp.arange(2))
    assert jitted().dtype == np.int32
    with xpr.enable_x64(True):
        assert jitted().dtype == np.int64
    assert jitted().dtype == np.int32


def test_static_arguments_by_number_and_name():
    fun = Counted(lambda x, n, *, mode="up": x * n if mode == "up" else x / n)
    jitted = xpr.jit(fun, static_argnums=1, static_argnames="mode")
    assert float(jitted(2.0, 3)) == 6
    assert float(jitted(2.0, 3, mode="down")) == pytest.approx(2 / 3)
    assert float(jitted(5.0, 3)) == 15
    assert fun.count == 2
    jitted(2.0, 4)
    assert fun.count == 3


def test_a_static_name_counts_however_it_is_passed():
    def fun(x, n):
        assert isinstance(n, int)
        return x * n

    jitted = xpr.jit(fun, static_argnames="n")
    assert float(jitted(2.0, 3)) == float(jitted(2.0, n=3)) == 6


def test_static_and_donated_arguments_may_be_given_by_iterators():
    def fun(x, n, m):
        return x * n * m

    assert float(xpr.jit(fun, static_argnames=iter(("n", "m")))(2.0, 3, m=4)) == 24
    with_options = xpr.jit(static_argnums=iter((1, 2)), donate_argnums=iter((0,)))
    for jitted in (with_options(fun), with_options(fun)):
        assert jitted.lower(jnp.float32(2), 3, 4).args_info[0][0].donated


def test_static_numbers_and_names_given_together_stay_apart():
    traced = []

    def fun(x, y):
        traced.append(tuple(isinstance(each, core.Tracer) for each in (x, y)))
        return 1

    mixed = xpr.jit(fun, static_argnums=1, static_argnames="x")
    mixed(2, "up"), mixed(2, y=3), mixed(x="up", y=3)
    xpr.jit(fun, static_argnums=1, static_argnames=())(3, y=2)
    xpr.jit(fun, static_argnums=(), static_argnames="y")(4, 2)
    assert traced == [(True, False), (True, True), (False, True), (True, True), (True, True)]


def test_a_tracer_that_escaped_is_no_argument():
    escaped = []
    xpr.jit(lambda x: escaped.append(x))(1.0)
    for call in (xpr.jit(jnp.sin), np.asarray):
        with pytest.raises(xpr.errors.UnexpectedTracerError, match="and has escaped"):
            call(escaped[0])


def test_a_tracer_that_escaped_is_told_with_the_line_on_which_it_was_created():
    escaped = []
    xpr.jit(lambda x: escaped.append(x * 2))(1.0)
    with pytest.raises(xpr.errors.UnexpectedTracerError, match=r"created on line test_jit.py:\d+ .*append\(x \* 2\)"):
        jnp.sin(escaped[0])


def test_static_arguments_of_equal_value_and_other_type_differ():
    jitted = xpr.jit(lambda n: jnp.ones(2) * (1.5 if isinstance(n, bool) else 2.5), static_argnums=0)
    assert float(jitted(1)[0]) == 2.5 and float(jitted(True)[0]) == 1.5


def test_static_arguments_of_equal_value_are_distinguished_inside_tuples_and_by_sign():
    @partial(xpr.jit, static_argnums=1)
    def times(x, by):
        return x * by[0]

    assert times(1, (2,)).dtype == np.int32
    assert times(1, (2.0,)).dtype == np.float32
    assert times(1, (True,)).dtype == np.int32
    shifted = xpr.jit(lambda x, zero: x + jnp.copysign(1.0, zero), static_argnums=1)
    assert float(shifted(1.0, 0.0)) == 2 and float(shifted(1.0, -0.0)) == 0


def test_keyword_arguments_and_pytrees():
    jitted = xpr.jit(lambda p, *, scale: {"out": p["w"] * scale, "none": None})
    out = jitted({"w": jnp.ones(2)}, scale=3.0)
    assert out["none"] is None
    np.testing.assert_array_equal(out["out"], [3, 3])


def test_the_short_road_for_containers_gives_what_the_long_one_gives():
    class Turned(NamedTuple):
        first: object
        second: object

    tree_util.register_pytree_node(
        Turned, lambda t: ((t.second, t.first), None), lambda _, children: Turned(children[1], children[0])
    )
    fun = Counted(lambda t, *, by=1.0: tree.map(lambda x: x + by, t))
    jitted = xpr.jit(fun)
    one, two = jnp.zeros(2), jnp.ones(3)
    for _ in range(3):
        out = jitted({"w": one, "b": (two, None)})
        assert list(out) == ["b", "w"] and out["b"][1] is None
        assert out["w"].shape == (2,) and out["b"][0].tolist() == [2, 2, 2]
    assert fun.count == 1
    for given in ([one, two], (one, two), Turned(one, two), {0: one, "b": two}):
        for _ in range(2):
            out = jitted(given)
            assert type(out) is type(given)
            assert sorted(x.shape for x in tree.leaves(out)) == [(2,), (3,)]
    assert jitted([one], by=two[0]).__getitem__(0).tolist() == [1, 1]
    assert jitted([one], by=two[:1])[0].tolist() == [1, 1]
    assert jitted([two])[0].tolist() == [2, 2, 2]
    with xpr.enable_x64(True):
        assert jitted([jnp.ones(3)])[0].dtype == np.float64


def test_decorator_with_options_and_methods():
    class Model:
        @xpr.jit
        def twice(self, x):
            return x * 2

    xpr.tree_util.register_static(Model)

    @xpr.jit(static_argnums=0)
    def repeat(n, x):
        return x * n

    assert float(repeat(3, 2.0)) == 6
    assert float(Model().twice(2.0)) == 4


def test_a_bound_method_is_as_much_a_jitted_function():
    class Model:
        @partial(xpr.jit, static_argnums=0)
        def double(self, x):
            """Twice."""
            return x * 2

    double = Model().double
    assert float(double(2.0)) == 4 and double.__name__ == "double" and double.__doc__ == "Twice."
    assert double.eval_shape(jnp.ones(3)).shape == (3,)
    assert len(double.trace(1.0).jaxpr.eqns) == 1
    assert float(double.lower(1.0).compile()(3.0)) == 6
    double.clear_cache()
    with pytest.raises(AttributeError, match="nothing"):
        double.nothing  # noqa: B018


def test_eval_shape_takes_a_function():
    with pytest.raises(TypeError, match="eval_shape: Expected a callable value, and got 3"):
        xpr.eval_shape(3, 1.0)


@pytest.mark.parametrize("call", [xpr.jit(lambda x: x + 1), jnp.sin, jnp.negative, xpr.grad(lambda x: x * x)])
def test_a_type_in_place_of_an_array(call):
    struct = xpr.ShapeDtypeStruct((), "float32")
    with pytest.raises(TypeError, match="only the type of one.*eval_shape"):
        xpr.jit(lambda: jnp.sin(struct))()
    with pytest.raises(TypeError, match="only the type of one.*eval_shape"):
        call(xpr.ShapeDtypeStruct((), "float32"))


def test_types_that_traced_functions_close_over():
    struct = xpr.ShapeDtypeStruct((3,), "float32")
    double = xpr.jit(lambda x: 2 * x)
    assert xpr.eval_shape(lambda: jnp.sin(double(struct))).shape == (3,)
    assert xpr.eval_shape(xpr.vmap(lambda y: double(struct) * y), jnp.ones(2)).shape == (2, 3)
    assert xpr.make_jaxpr(lambda: double(struct))().out_avals == [struct.aval]
    with pytest.raises(TypeError, match="only the type of one"):
        xpr.jit(lambda: double(struct)).lower().compile()()


def test_jvp_of_jit_traces_the_function_once():
    fun = Counted(lambda x: jnp.sin(x) * x)
    jitted = xpr.jit(fun)
    jitted(1.0)
    xpr.jvp(jitted, (1.0,), (1.0,))
    xpr.grad(jitted)(1.0)
    xpr.vmap(jitted)(jnp.ones(3))
    assert fun.count == 1 + 1  # the rows are not weakly typed


def test_constants_are_never_part_of_the_program():
    table = jnp.arange(1000.0)
    lowered = xpr.jit(lambda x: x + table).lower(1.0)
    assert len(lowered.as_text()) < 1000
    np.testing.assert_array_equal(xpr.jit(lambda x: x + table)(1.0), np.arange(1000) + 1)


def test_inlined_functions_are_no_calls():
    table = jnp.arange(3.0)
    inlined = xpr.jit(lambda x: jnp.sin(x) + table, inline=True)
    assert inlined(1.0).shape == (3,) and inlined.lower(1.0).as_text().count("func.func public @main") == 1
    closed = xpr.make_jaxpr(lambda x: inlined(x) * 2)(1.0)
    assert {eqn.primitive.name for eqn in closed.eqns} == {"sin", "convert_element_type", "add", "mul"}
    outer = xpr.jit(xpr.vmap(xpr.grad(lambda x: inlined(x).sum())))
    np.testing.assert_allclose(outer(table), 3 * np.cos(table), rtol=1e-6)
    ref = xpr.new_ref(0.0)

    @xpr.jit(inline=True)
    def counted(x):
        ref[...] += 1
        return x

    xpr.jit(lambda x: counted(counted(x)))(1.0)
    assert ref[...] == 2


def test_constant_results_of_inlined_functions_are_arrays():
    def constants(x):
        return jnp.array(1), jnp.array(2, jnp.int8), 2.5, x

    for inline in (True, False):
        inner = xpr.jit(constants, inline=inline)

        @xpr.jit
        def types(x, inner=inner):
            results = inner(x)
            assert [y.shape for y in results] == [()] * 4
            return results

        expected = [y.aval for y in map(jnp.asarray, constants(jnp.float32(1)))]
        assert [y.aval for y in types(jnp.float32(1))] == expected


def test_donation_deletes_the_argument():
    x = jnp.sin(jnp.ones(1000))
    y = xpr.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(xpr.errors.DeletedArrayError, match="deleted, or donated"):
        np.asarray(x)
    with pytest.raises(ValueError, match="deleted, or donated"):  # which it is in JAX; of an operation a RuntimeError
        xpr.jit(lambda x: x + 1)(x)
    assert "deleted" in repr(x)


def test_donated_arrays_that_no_result_can_replace_are_kept():
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable: x f32\[4\]\. No result") as caught:
        kept = jnp.sin(jnp.ones(4))
        xpr.jit(lambda x: x.sum(), donate_argnums=0)(kept)
    assert not kept.is_deleted() and caught[0].filename == __file__
    x, y, unread = (jnp.sin(jnp.ones((3, 3))) for _ in range(3))
    with pytest.warns(UserWarning, match=r"not usable: state\['b'\] f32\[3,3\]\."):
        xpr.jit(lambda state, z: state["a"] + state["b"], donate_argnums=(0, 1))({"a": x, "b": y}, unread)
    assert (x.is_deleted(), y.is_deleted(), unread.is_deleted()) == (True, False, False)
    reshaped, converted = jnp.sin(jnp.ones((3, 3))), jnp.sin(jnp.ones((3, 3)))
    xpr.jit(lambda x, y: (x.reshape(9) + 1, y.astype(int)), donate_argnums=(0, 1))(reshaped, converted)
    assert reshaped.is_deleted() and converted.is_deleted()


def test_donation_by_name_inside_pytrees():
    state = {"a": jnp.sin(jnp.ones(3)), "b": jnp.cos(jnp.ones(3))}
    jitted = xpr.jit(lambda k, state: {n: v * k for n, v in state.items()}, donate_argnames="state")
    out = jitted(2.0, state)
    assert state["a"].is_deleted() and state["b"].is_deleted()
    np.testing.assert_allclose(out["a"], 2 * np.sin(np.ones(3)), rtol=1e-6)


def test_lower_compile_and_analyses():
    lowered = xpr.jit(lambda x: jnp.sin(x) @ x).lower(xpr.ShapeDtypeStruct((4, 4), np.float32))
    assert "stablehlo.sine" in lowered.as_text()
    compiled = lowered.compile()
    assert "HloModule" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == 64
    x = np.eye(4, dtype=np.float32)
    np.testing.assert_allclose(compiled(x), np.sin(x) @ x, rtol=1e-6)
    with pytest.raises(TypeError, match=r"x. compiled with float32\[4,4\] and called with float32\[3\]"):
        compiled(jnp.ones(3))
    with pytest.raises(TypeError, match="args   expected tuple of 1, got tuple of 2"):
        compiled(x, x)


@pytest.mark.parametrize(
    "name, value",
    [
        ("optimization_level", 19),
        ("memory_fitting_level", 9),
        ("exec_time_optimization_effort", 0.0),
        ("memory_fitting_effort", 0.0),
    ],
)
def test_compilers_efforts_are_options(name, value):
    f = xpr.jit(lambda x: x + 1, compiler_options={name: value})
    if hasattr(runtime._jax.ExecutableBuildOptions, name):
        assert f(1.0) == 2.0
    else:
        with pytest.raises(ValueError, match=f"The XLA of jaxlib .* has no compiler option '{name}'"):
            f(1.0)


def test_unknown_compiler_options_are_named():
    with pytest.raises(ValueError, match="xla_no_such_option"):
        xpr.jit(lambda x: x + 1, compiler_options={"xla_no_such_option": 1})(jnp.ones(2))


def test_compiler_options_are_those_of_whole_programs():
    inner = xpr.jit(lambda x: x * 2, compiler_options={"xla_cpu_enable_fast_math": False})
    assert inner(2.0) == 4 and xpr.grad(inner)(2.0) == 2 and xpr.vmap(inner)(jnp.ones(2))[0] == 2
    for outer in (xpr.jit(lambda x: inner(x)), lambda x: xpr.make_jaxpr(inner)(x), xpr.jit(xpr.vmap(inner))):
        with pytest.raises(ValueError, match="`compiler_options` can only be passed to top-level `jax.jit`, since XLA"):
            outer(jnp.ones(2))


def test_an_argument_that_is_a_type_alone_is_named():
    struct = xpr.ShapeDtypeStruct((4, 2), np.int32)
    with pytest.raises(TypeError, match=r"Argument 'x\['b'\]' of shape int32\[4,2\] of type ShapeDtypeStruct, where"):
        xpr.jit(lambda x: x)({"a": np.ones(3), "b": struct})
    with pytest.raises(TypeError, match="A ShapeDtypeStruct does not have a value, and an array is needed"):
        xpr.jit(lambda x: (x, struct))(1.0)


def test_disable_jit_runs_op_by_op():
    seen = []
    with xpr.disable_jit():
        xpr.jit(lambda x: seen.append(float(x)))(2.0)
    assert seen == [2.0]


def test_reference_backend_needs_no_xla():
    fun = lambda x: jnp.sum(jnp.sin(x) * x, 0)
    x = np.linspace(0, 1, 5, dtype=np.float32)
    np.testing.assert_allclose(xpr.jit(fun, backend="reference")(x), xpr.jit(fun)(x), rtol=1e-6)


def test_a_device_may_be_named_by_its_platform():
    doubled = xpr.jit(lambda x: x * 2, device="cpu")
    assert doubled(jnp.arange(3)).tolist() == [0, 2, 4]
    assert doubled(jnp.arange(3)).devices() == {xpr.local_devices(backend="cpu")[0]}


def test_caches_keep_neither_functions_nor_arrays_alive():
    array = jnp.arange(5.0)

    def fun(x):
        return x + array  # noqa: F821  # it is deleted below, after the last call

    refs = [weakref.ref(fun), weakref.ref(array)]
    xpr.jit(fun)(1.0)
    xpr.jit(lambda y: xpr.jit(fun)(y))(1.0)  # noqa: F821  # likewise
    del fun, array
    gc.collect()
    assert [r() for r in refs] == [None, None]


def jitted_with_a_rule_that_closes_over_it():
    @xpr.custom_vjp
    def inner(x):
        return x * 2

    def outer(x):
        return inner(x)

    jitted = xpr.jit(outer)
    inner.defvjp(lambda x: (jitted(x), None), lambda _, ct: (ct * 2,))
    return jitted


def test_a_function_whose_own_rule_closes_over_it_is_not_kept_alive():
    jitted = jitted_with_a_rule_that_closes_over_it()
    assert float(xpr.grad(jitted)(1.0)) == 2
    seen = weakref.ref(jitted.fun)
    del jitted
    gc.collect()
    assert seen() is None


def test_a_first_call_leaves_no_reference_cycles():
    array = jnp.ones(3)
    xpr.jit(lambda x: x.sum() - 7)(array)
    gc.collect()
    xpr.jit(lambda x: x.sum() - 8)(array)
    assert gc.collect() == 0


def test_wraps_does_not_hand_on_what_was_traced():
    def fun(x):
        return x + 1

    assert float(xpr.jit(fun)(1.0)) == 2
    wrapped = wraps(fun)(lambda x: fun(x) * 10)
    assert float(xpr.jit(wrapped)(1.0)) == 20
    assert float(xpr.jit(fun)(1.0)) == 2


class Cube:
    """Has no name, and an attribute."""

    def __init__(self):
        self.tag, self.name = [1], "own"

    def __call__(self, x: float) -> float:
        return x**3.0


WRAPPERS = [
    xpr.jit, xpr.grad, xpr.value_and_grad, xpr.jacfwd, xpr.jacrev, xpr.hessian, xpr.vmap, xpr.pmap, xpr.checkpoint,
    xpr.custom_jvp, xpr.custom_vjp, xpr.custom_batching.custom_vmap, xpr.named_call, jnp.vectorize,
    xpr.shard_map(mesh=xpr.make_mesh((1,), "x"), in_specs=xpr.P(), out_specs=xpr.P()),
]  # fmt: skip


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: getattr(wrapper, "__name__", "shard_map"))
def test_a_wrapper_has_what_its_function_has(wrapper):
    def named(x: float) -> float:
        """Says what it does."""
        return x * 2.0

    cube = Cube()
    named.tag = cube.tag
    for fun, name in ((cube, "Cube"), (named, "named"), (partial(named), "named"), (cube.__call__, "__call__")):
        made = wrapper(fun)
        assert inspect.unwrap(made) is fun and made.__name__ == name
        assert made.__doc__ == fun.__doc__ or (wrapper is xpr.vmap and made.__doc__.endswith(fun.__doc__ or "each."))
        assert inspect.signature(made) == inspect.signature(fun)
        assert made.__annotations__ == getattr(fun, "__annotations__", {})
        assert made.__module__ == fun.__module__ and made.__qualname__.endswith(name)
        assert vars(made).get("tag") is vars(fun).get("tag") if hasattr(fun, "__dict__") else True
    for kind in (abs, np.sin, Cube):
        assert wrapper(kind).__name__ == kind.__name__ and not hasattr(wrapper(kind), "tag")


def test_attributes_of_a_function_do_not_stand_before_those_of_its_wrapper():
    cube = Cube()
    cube.fun = cube.caches = cube.lower = cube.jvp = None
    assert xpr.jit(cube).fun is cube and float(xpr.jit(cube)(2.0)) == 8 and xpr.jit(cube).lower(2.0).compile()(2.0) == 8
    with pytest.raises(AttributeError, match="No JVP defined for custom_jvp function Cube"):
        xpr.grad(xpr.custom_jvp(xpr.jit(cube)))(2.0)


def test_messages_name_the_function_of_a_partial():
    def f(rate, x):
        return x

    with pytest.raises(ValueError, match=r"argument x of f at test_jit.py:\d+, of type f32\[\]"):
        xpr.vmap(partial(f, 1.0))(2.0)


def test_clear_caches_forgets_traces():
    fun = Counted(lambda x: x + 1)
    jitted = xpr.jit(fun)
    jitted(1.0)
    xpr.clear_caches()
    jitted(1.0)
    assert fun.count == 2
    jitted.clear_cache()
    jitted(1.0)
    assert fun.count == 3


@pytest.mark.skipif(mappings.allowed() is None, reason="the system doesn't count mappings of memory")
def test_programs_are_forgotten_before_mappings_run_out(monkeypatch):
    fun = Counted(lambda x: x + 1)
    jitted = xpr.jit(fun)
    jitted(1.0)
    allowed = int(1.2 * mappings.taken())
    monkeypatch.setattr(mappings, "allowed", lambda: allowed)
    monkeypatch.setattr(mappings, "until_count", 1)
    jitted(2.0)
    assert fun.count == 1, "a known program needs no more mappings"
    xpr.jit(lambda x: x + 2)(1.0)
    jitted(3.0)
    assert fun.count == 2
    monkeypatch.setattr(mappings, "allowed", lambda: 10)
    monkeypatch.setattr(mappings, "until_count", 1)
    with pytest.raises(MemoryError, match=r"\d+ mappings .*\n?.* allows it 10; .* sysctl vm.max_map_count=40"):
        xpr.jit(lambda x: x + 3)(1.0)
    assert xpr.jit(lambda x: x + 3)(1.0) == 4, "there may be enough by now"


def test_dispatch_is_asynchronous():
    x = jnp.ones((1500, 1500))
    matmul = xpr.jit(lambda x: x @ x @ x @ x)
    matmul(x).block_until_ready()
    y = matmul(x)
    y.block_until_ready()
    assert y.is_ready()


def test_a_call_with_closed_over_tracers_is_traced_once_in_a_trace():
    inner_count = 0

    def outer(x):
        @xpr.jit
        def inner(y):
            nonlocal inner_count
            inner_count += 1
            return y * x

        return inner(1.0) + inner(2.0)

    assert float(xpr.jit(outer)(3.0)) == 9
    assert inner_count == 1


@pytest.mark.parametrize("nest", [xpr.grad, xpr.jit, lambda f: xpr.jit(xpr.grad(xpr.jit(f)))])
def test_jit_anywhere_in_the_nest(nest):
    fun = lambda x: jnp.sin(x) * x
    nested, plain = nest(xpr.jit(fun)), nest(fun)
    assert float(nested(0.7)) == pytest.approx(float(plain(0.7)), rel=1e-6)


# -- Errors


def test_branching_on_a_traced_value():
    def choose(x, negate):
        return -x if negate else x

    with pytest.raises(xpr.errors.TracerBoolConversionError) as error:
        xpr.jit(choose)(1, True)
    message = str(error.value)
    assert isinstance(error.value, TypeError)
    for part in (
        "argument negate of choose at test_jit.py:",
        "-x if negate else x",
        "static_argnums",
        "lax.cond",
        "jnp.where",
    ):
        assert part in message
    assert int(xpr.jit(choose, static_argnums=1)(1, True)) == -1


@pytest.mark.parametrize(
    "fun, error, part",
    [
        (lambda x: float(x), xpr.errors.ConcretizationTypeError, "float()"),
        (lambda x: int(x), xpr.errors.ConcretizationTypeError, "int()"),
        (lambda x: x.item(), xpr.errors.ConcretizationTypeError, ".item()"),
        (lambda x: x.tolist(), xpr.errors.ConcretizationTypeError, ".tolist()"),
        (lambda x: complex(x), xpr.errors.ConcretizationTypeError, "complex()"),
        (lambda x: list(range(x)), xpr.errors.TracerIntegerConversionError, "lax.fori_loop"),
        (lambda x: np.sin(x), xpr.errors.TracerArrayConversionError, "xpr.numpy"),
        (lambda x: f"{x:.2f}", xpr.errors.ConcretizationTypeError, "format()"),
        (lambda x: 1 if x > 0 else 2, xpr.errors.TracerBoolConversionError, "lax.cond"),
    ],
)
def test_asking_a_tracer_for_its_value(fun, error, part):
    for transform in (xpr.jit, xpr.make_jaxpr, lambda f: lambda x: xpr.vmap(f)(jnp.ones(2, jnp.int32) * x)):
        with pytest.raises(error) as caught:
            transform(fun)(1)
        assert part in str(caught.value) and "argument x" in str(caught.value) and "test_jit.py" in str(caught.value)


def test_python_control_flow_under_grad_and_jvp_sees_values():
    def divide(x, y):
        return x / y if y >= 1.0 else 0.0 * x

    assert float(xpr.grad(divide)(3.0, 2.0)) == 0.5
    assert float(xpr.jvp(lambda x: x * int(x) if bool(x > 0) else x, (2.5,), (1.0,))[1]) == 2


def test_escaped_tracers_say_where_they_were_made():
    kept = []

    def leaky(x):
        kept.append(x * 2)
        return x

    xpr.jit(leaky)(1.0)
    for use in (lambda: kept[0] + 1, lambda: xpr.jit(lambda y: y + kept[0])(1.0), lambda: float(kept[0])):
        with pytest.raises(xpr.errors.UnexpectedTracerError) as error:
            use()
        assert "leaky at test_jit.py:" in str(error.value) and "escaped" in str(error.value)


def test_clear_cache_frees_the_program():
    client = xpr.devices()[0].client
    tripled = xpr.jit(lambda x: 3 * x - 0.625)
    gc.collect()  # programs of earlier tests
    before = len(client.live_executables())
    tripled(jnp.ones(7))
    assert len(client.live_executables()) > before
    tripled.clear_cache()
    gc.collect()
    assert len(client.live_executables()) <= before


class Incomparable:
    """Equal hashes, and == raises an error."""

    def __hash__(self):
        return 1

    def __eq__(self, other):
        raise NotImplementedError("not comparable")


@xpr.tree_util.register_dataclass
@dataclasses.dataclass
class Fixed:
    value: Any = dataclasses.field(default_factory=lambda: jnp.arange(4), metadata={"static": True})


def twice(fun, make):
    fun(make())
    return fun(make())


@pytest.mark.parametrize(
    "call, error, part",
    [
        (lambda: xpr.jit(3), TypeError, "jit: Expected a callable value, and got 3 of type int"),
        (
            lambda: xpr.jit(lambda x: x)("a"),
            TypeError,
            "is of type builtins.str, 'a', and was passed to the function at path x",
        ),
        (lambda: xpr.jit(lambda x: "a")(1), TypeError, "returned a value of type str, which is not a valid JAX type"),
        (lambda: xpr.jit(lambda x: {"k": [x, "a"]})(1), TypeError, "of type str, at output component ['k'][1], which"),
        (lambda: xpr.jit(lambda x: x, static_argnums=0)([1]), ValueError, "Non-hashable static arguments"),
        (lambda: twice(xpr.jit(lambda x: 1.0, static_argnums=0), Incomparable), ValueError, "comparable using __eq__"),
        (
            lambda: twice(xpr.jit(lambda x: 1.0), Fixed),
            ValueError,
            "jit: Exception raised while checking equality of metadata fields of pytree arguments of <lambda> at",
        ),
        (lambda: xpr.jit(lambda x: x, static_argnums=3), ValueError, "jit: static_argnums has 3, and <lambda> at"),
        (lambda: xpr.jit(lambda x: x, donate_argnums=3), ValueError, "takes 1 positional arguments"),
        (lambda: xpr.jit(lambda x: x, static_argnames="y"), ValueError, "takes arguments are x"),
        (lambda: xpr.jit(lambda x: x, donate_argnames="y"), ValueError, "jit: donate_argnames has 'y', and the names"),
        (lambda: xpr.jit(lambda x: x, static_argnums="x"), TypeError, "static_argnums must be an integer or a seq"),
        (lambda: xpr.jit(lambda x: x, donate_argnums=0.5), TypeError, "donate_argnums must be an integer or a seq"),
        (lambda: xpr.jit(lambda x: x, static_argnames=0), TypeError, "static_argnames must be a string or a sequence"),
        (lambda: xpr.jit(lambda x: x, donate_argnames=[0]), TypeError, "and is [0]"),
        (lambda: xpr.jit(lambda x: x, device=0), TypeError, "jit: device is 0, which is no device. Devices are"),
        (lambda: xpr.jit(lambda x: x, device="abacus")(1.0), RuntimeError, "abacus"),
    ],
)
def test_bad_input_is_named(call, error, part):
    with pytest.raises(error) as caught:
        call()
    assert part in str(caught.value)


def _library_frames(call, error_type):
    with pytest.raises(error_type) as caught:
        call()
    package = os.path.dirname(xpr.__file__) + os.sep
    return [frame for frame in traceback.extract_tb(caught.tb) if frame.filename.startswith(package)]


def test_library_frames_are_removed_from_tracebacks():
    def fails(*args):
        raise KeyError("mine")

    rule = xpr.custom_jvp(fails)
    rule.defjvp(fails)
    for call in (
        lambda: xpr.grad(xpr.jit(fails))(1.0),
        lambda: lax.cond(True, fails, fails, 1.0),
        lambda: lax.switch(1, [fails, fails], 1.0),
        lambda: lax.scan(fails, 0.0, None, 3),
        lambda: lax.while_loop(fails, lambda x: x, 0.0),
        lambda: lax.fori_loop(0, 3, fails, 0.0),
        lambda: lax.map(fails, jnp.arange(3)),
        lambda: lax.associative_scan(fails, jnp.arange(3)),
        lambda: lax.reduce(jnp.arange(3), 0, fails, (0,)),
        lambda: lax.custom_root(fails, 0.0, fails, fails),
        lambda: xpr.checkpoint(fails)(1.0),
        lambda: checkify.checkify(fails)(1.0),
        lambda: xpr.closure_convert(fails, 1.0),
        lambda: rule(1.0),
    ):
        assert len(_library_frames(call, KeyError)) <= 1
        with xpr.traceback_filtering(False):
            assert len(_library_frames(call, KeyError)) > 1
    assert len(_library_frames(lambda: lax.scan(lambda c, x: (1, x), 1.0, None, 3), TypeError)) <= 1


def _raised_in_calls_of_calls(mode):
    @xpr.jit
    def inner(x):
        raise KeyError("mine")

    @xpr.jit
    def outer(x):
        return xpr.vmap(inner)(x)

    with xpr.traceback_filtering(mode), pytest.raises(KeyError) as caught:
        outer(jnp.ones(3))
    return caught.value, [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)]


def test_modes_of_removing_frames_from_tracebacks():
    alone = ["_raised_in_calls_of_calls", "outer", "inner"]
    error, names = _raised_in_calls_of_calls("auto")
    assert names == alone and error.__cause__ is None and not hasattr(error, "__notes__")
    error, names = _raised_in_calls_of_calls("quiet_remove_frames")
    assert names == alone and len(error.__notes__) == 1 and "XPR_TRACEBACK_FILTERING=off" in error.__notes__[0]
    error, names = _raised_in_calls_of_calls("remove_frames")
    assert names == alone and not hasattr(error, "__notes__")
    assert type(error.__cause__).__name__ == "UnfilteredStackTrace" and str(error.__cause__) == "KeyError: 'mine'"
    assert len(list(traceback.walk_tb(error.__cause__.__traceback__))) > 6
    error, names = _raised_in_calls_of_calls("tracebackhide")
    shown = [
        f.f_code.co_name for f, _ in traceback.walk_tb(error.__traceback__) if "__tracebackhide__" not in f.f_locals
    ]
    assert shown == alone and len(names) > 6
    error, names = _raised_in_calls_of_calls("off")
    assert len(names) > 6 and error.__cause__ is None


def test_an_error_of_the_library_itself_ends_in_the_line_of_the_user():
    with pytest.raises(TypeError) as caught:
        xpr.jit(lambda x: x)("text")
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)] == [
        "test_an_error_of_the_library_itself_ends_in_the_line_of_the_user"
    ]


def test_flags_of_the_setting_for_tracebacks():
    for given, kept in ((True, "auto"), (False, "off"), ("off", "off"), ("remove_frames", "remove_frames")):
        with xpr.traceback_filtering(given):
            assert xpr.config.traceback_filtering == kept
    with pytest.raises(
        ValueError, match="traceback_filtering is 'auto', 'off', .* or 'tracebackhide', and 'some' was given"
    ):
        xpr.config.update("traceback_filtering", "some")


def test_whose_frame_it_is_does_not_depend_on_the_names_of_folders(tmp_path):
    """A checkout may lie in a folder called demo, or optree, and so may the user's own file."""
    for name in ("demo", "optree", "xpr"):
        folder = tmp_path / name / "xpr"
        folder.mkdir(parents=True)
        (folder / "xpr").symlink_to(os.path.dirname(xpr.__file__))
        (folder / "user.py").write_text(
            "import traceback, xpr\nfrom xpr.core.source import summarize\n\n\n"
            "def mine(x):\n    return x + 'a'\n\n\n"
            "try:\n    xpr.jit(mine)(1.0)\nexcept TypeError as error:\n"
            "    print([frame.name for frame in traceback.extract_tb(error.__traceback__)])\n"
            "print(summarize(xpr.make_jaxpr(lambda x: x + 1)(1.0).eqns[0].source))\n"
        )
        done = subprocess.run([sys.executable, "user.py"], cwd=folder, capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": ""})  # fmt: skip
        frames, line = done.stdout.splitlines()
        assert frames == "['<module>', 'mine']" and line == "user.py:13 (<lambda>)", (name, done)


def test_psum_outside_of_any_mapped_axis():
    with pytest.raises(NameError, match="unbound axis name: i. The axes"):
        xpr.jit(lambda x: lax.psum(x, "i"))(1.0)


# -- Found by reading: each of these once gave a wrong answer or the wrong exception


def test_traces_with_closures_are_distinguished_by_the_function_itself():
    def outer(x):
        outs = []
        for shift in range(20):
            inner = xpr.jit(lambda y, shift=shift: y * x + shift)
            outs.append(inner(1.0))
            del inner
            gc.collect(0)
        return jnp.stack(outs)

    np.testing.assert_array_equal(xpr.jit(outer)(1.0), np.arange(20) + 1)


def test_settings_changed_after_a_context_manager_are_seen():
    with xpr.enable_x64(True):
        pass
    jitted = xpr.jit(lambda x: x.astype(float))
    assert jitted(jnp.arange(3.0)).dtype == np.float32
    xpr.config.update("enable_x64", True)
    try:
        assert jitted(jnp.arange(3.0)).dtype == np.float64
    finally:
        xpr.config.update("enable_x64", False)


def test_disable_jit_after_compiled_calls():
    fun = Counted(lambda x: x + 1)
    jitted, x = xpr.jit(fun), jnp.arange(3.0)
    jitted(x), jitted(x)
    with xpr.disable_jit():
        jitted(x), jitted(x)
    assert fun.count == 3


@pytest.mark.parametrize("call", [lambda: jnp.asarray(1) + 2**40, lambda: xpr.jit(lambda x: x + 2**40)(1)])
def test_python_integers_that_do_not_fit(call):
    with pytest.raises(OverflowError, match="1099511627776 (out of bounds for|too large to convert to) int32"):
        call()


def test_donated_arguments_by_keyword_or_left_at_their_default():
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(xpr.jit(lambda a, b: a - b, donate_argnames="b")(a=x, b=x * 2), -np.arange(3))
    np.testing.assert_array_equal(xpr.jit(lambda a, s=1.0: a + s, donate_argnums=(0, 1))(x * 1), np.arange(3) + 1)


def test_numbers_that_are_donated_remain_known():
    """Equal numbers have one buffer, which other programs read."""
    donating = xpr.jit(lambda n, x: (n * 2, x + n), donate_argnums=0)
    x = jnp.arange(3.0)
    for _ in range(3):
        donating(2.5, x)
    assert lax.cond(True, lambda n: n + 1, lambda n: n, 2.5) == 3.5


def test_an_array_donated_twice():
    x = jnp.sin(jnp.arange(3.0))
    with pytest.raises(ValueError, match="given twice"):
        xpr.jit(lambda a, b: a + b, donate_argnums=0)(x, x)
    assert not x.is_deleted()


def test_many_donated_arguments():
    """Each is looked up among the others: in time that grows with their number, not with its square."""
    state = [jnp.float32(i) for i in range(4000)]
    compiled = xpr.jit(lambda state: state, donate_argnums=0).lower(state).compile()
    started = time.perf_counter()
    compiled.check_donated(state)
    assert time.perf_counter() - started < 0.1
    with pytest.raises(xpr.errors.DonationError, match="donated was given twice"):
        compiled.check_donated([*state[:-1], state[0]])


def test_an_array_that_is_donated_and_given_twice_is_named():
    def step(params, opt):
        return params, opt

    x = jnp.ones(3) + 0
    message = r"step: .* opt\[0\]\['m'\] is the same array as opt\[1\]\['v'\]. Pass a copy"
    with pytest.raises(xpr.errors.DonationError, match=message):
        xpr.jit(step, donate_argnums=(0, 1))(jnp.zeros(2) + 0, ({"m": x}, {"v": x}))
    large = jnp.arange(50_000.0) + 0
    with pytest.raises(xpr.errors.DonationError, match="a is the same array as one that the function closes over"):
        xpr.jit(lambda a: a + large, donate_argnums=0)(large)


def nested(wrap, times):
    fun = lambda x: x + 1
    for _ in range(times):
        fun = wrap(fun)
    return fun


def test_functions_that_nest_too_deep_are_named():
    jits = nested(lambda inner: xpr.jit(lambda x: inner(x) * 1.5), 300)
    conds = nested(lambda inner: lambda x: lax.cond(x > 0, lambda x: inner(x), lambda x: x, x), 150)
    for fun, name in ((jits, "jit"), (conds, "cond")):
        with pytest.raises(RecursionError) as caught:
            fun(1.0)
        (note,) = caught.value.__notes__
        assert re.search(rf"were, inside each other: {name} \d+ times\. .*sys\.setrecursionlimit\(", note)


def test_compiled_programs_name_the_arguments_that_differ():
    def loss(n, params, x):
        return (params["w"] @ x + params["b"]).sum() * n

    params = {"w": np.ones((2, 3), np.float32), "b": np.ones(2, np.float32)}
    compiled = xpr.jit(loss, static_argnums=0).lower(2, params, np.ones(3, np.float32)).compile()
    with pytest.raises(TypeError) as caught:
        compiled(params | {"b": np.ones(3, np.float32)}, np.ones(3, np.int32))
    assert str(caught.value).splitlines() == [
        "loss: Argument types differ between the program and this call. The mismatches are:",
        "Argument 'params['b']' compiled with float32[2] and called with float32[3]",
        "Argument 'x' compiled with float32[3] and called with int32[3]",
        "Convert these arguments, compile another program for them, or call the jitted function, which does.",
    ]
    with pytest.raises(
        TypeError,
        match=r"(?s)does not match the one that it was compiled for:.*args\[0\]\['b'\] +expected a leaf.*missing",
    ):
        compiled({"w": params["w"]}, np.ones(3, np.float32))


def test_compiled_programs_are_not_transformed():
    compiled = xpr.jit(lambda x: x + 1).lower(jnp.ones(2)).compile()
    with pytest.raises(TypeError, match="call the jitted function instead"):
        xpr.jit(lambda x: compiled(x))(jnp.ones(2))


def test_what_changes_tracing_is_seen_by_every_thread():
    """Settings of the process, also by a thread that has others of its own; and those of a thread by it alone."""
    before, started, changed, found = settings.trace_key, threading.Event(), threading.Event(), []

    def other():
        with xpr.enable_x64():
            found.append(settings.trace_key)
            started.set()
            changed.wait(10)
            found.append(settings.trace_key)
        found.append(settings.trace_key)

    thread = threading.Thread(target=other)
    thread.start()
    started.wait(10)
    assert settings.trace_key == before != found[0]
    try:
        xpr.config.update("while_checkpoints", 16)
        changed.set()
        thread.join()
        assert settings.trace_key == found[2] != before
        assert found[1] not in (found[0], found[2])
    finally:
        xpr.config.update("while_checkpoints", 64)
    assert settings.trace_key == before


def test_compiler_options_are_a_dict():
    with pytest.raises(TypeError, match="jit: compiler_options is a dict of XLA options by name, and is 3"):
        xpr.jit(lambda x: x, compiler_options=3)
    with pytest.raises(TypeError, match="compile: compiler_options is a dict of XLA options by name, and is 3"):
        xpr.jit(lambda x: x).lower(1.0).compile(3)


def test_float0_goes_in_and_out():
    """XLA has no such type; gradients of integers are of it."""
    zeros = np.zeros(3, xpr.dtypes.float0)

    def check(found):
        assert isinstance(found, np.ndarray) and found.dtype == xpr.dtypes.float0

    gradients = xpr.jit(xpr.grad(lambda n, x: (x * n).sum(), argnums=(0, 1), allow_int=True))
    for _ in range(2):
        of_integer, of_array = gradients(jnp.int32(3), jnp.ones(2))
        check(of_integer)
        np.testing.assert_array_equal(of_array, [3, 3])
    passed = xpr.jit(lambda x, z: (x * 2, z, zeros))
    _, given, closed_over = passed(jnp.ones(2), zeros)
    check(given)
    check(closed_over)


def test_calls_of_compiled_programs_are_known_by_their_types():
    """From the second one on a call looks at types alone; what is new, or wrong, is looked at as before."""
    compiled = xpr.jit(lambda x, tree: x * tree["a"]).lower(jnp.ones(3), {"a": 2.0}).compile()
    for scale in (2.0, jnp.float32(3.0), np.ones((), np.float32)):
        for _ in range(2):
            np.testing.assert_array_equal(compiled(jnp.ones(3), {"a": scale}), np.full(3, scale))
    assert len(compiled.known.in_trees) == 3
    with pytest.raises(TypeError, match="Argument types differ between"):
        compiled(jnp.ones(4), {"a": 2.0})
    with pytest.raises(TypeError, match="a compiled program can't be transformed"):
        xpr.grad(lambda x: compiled(x, {"a": 2.0}).sum())(jnp.ones(3))


def test_calls_with_static_arguments_are_known_by_them():
    """By position, from either end, or by name; 1, 1.0, True and 0.0, -0.0 are different ones."""
    f = xpr.jit(
        lambda x, kind, *rest, scale=1: x * scale + (kind == 1), static_argnums=(1, -1), static_argnames="scale"
    )
    x = jnp.ones(3)
    for _ in range(2):
        for value in (1, 1.0, True, "one", (1,), (1.0,), np.int32(1), None):
            np.testing.assert_array_equal(f(x, value), np.full(3, 2 if value == 1 else 1))
        np.testing.assert_array_equal(f(x, 1, {"a": x}, "last", scale=3), np.full(3, 4))
        np.testing.assert_array_equal(f(x, 1, scale=2.0), np.full(3, 3))
    assert len(f.known.direct) == 9 and len(f.known.in_trees) == 1
    with pytest.raises(ValueError, match=r"Non-hashable static arguments are not supported.* Argument number 1"):
        f(x, [1])
    sign = xpr.jit(lambda x, zero: jnp.copysign(x, zero), static_argnames="zero")
    assert [float(sign(1.0, zero)) for zero in (0.0, -0.0) * 2] == [1, -1, 1, -1]
    assert [float(sign(1.0, zero=zero)) for zero in (0.0, -0.0) * 2] == [1, -1, 1, -1]

    class Model:
        def __init__(self, scale):
            self.scale = scale

        @partial(xpr.jit, static_argnums=0)
        def __call__(self, x):
            return self.scale * x

    models = Model(2.0), Model(3.0)
    assert [float(model(2.0)) for model in models * 2] == [4, 6, 4, 6]


def test_calls_that_donate_are_known_by_their_types():
    def step(state, x):
        return {"w": state["w"] + x, "n": state["n"] + 1}

    stepped = xpr.jit(step, donate_argnums=0)
    given = []
    state = {"w": jnp.zeros(3) + 0, "n": jnp.int32(0) + 0}
    for _ in range(4):
        given += state.values()
        state = stepped(state, jnp.ones(3))
    np.testing.assert_array_equal(state["w"], np.full(3, 4))
    assert int(state["n"]) == 4 and all(x.is_deleted() for x in given)
    assert len(stepped.known.in_trees) == 1
    with pytest.raises(errors.DeletedArrayError, match="it was deleted, or donated to a jitted call"):
        np.asarray(given[0])
    x = jnp.ones(3) + 0
    for _ in range(2):
        with pytest.raises(errors.DonationError, match=r"donated was given twice: state\['w'\] is the same array as "):
            stepped({"w": x, "n": jnp.int32(0)}, x)
        np.testing.assert_array_equal(x, np.ones(3))
    viewed = jnp.ones(3) + 0
    view = np.asarray(viewed)
    assert float(stepped({"w": viewed, "n": np.int32(1)}, x)["w"][0]) == 2 and view[0] == 1
    compiled = xpr.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile()
    x = reduce(lambda x, _: compiled(x), range(3), jnp.zeros(3) + 0)
    np.testing.assert_array_equal(x, np.full(3, 3))
    assert len(compiled.known.direct) == 1


def test_calls_with_nodes_of_any_class_are_known_by_their_types():
    """Namedtuples and registered classes; what compares nodes may raise, and is then explained by the general path."""

    class Data:
        def __eq__(self, other):
            if self is not other:
                raise ZeroDivisionError("no comparison")
            return True

        __hash__ = object.__hash__

    class Pair(NamedTuple):
        x: Any
        y: Any

    Node = type("Node", (), {})

    def node(x, data):
        made = Node()
        made.x, made.data = x, data
        return made

    xpr.tree_util.register_pytree_node(Node, lambda n: ((n.x,), n.data), lambda data, xs: node(xs[0], data))
    data, x = Data(), jnp.ones(3)
    double = xpr.jit(lambda pair: Pair(pair.x * 2, node(pair.y.x + 1, pair.y.data)))
    for i in range(3):
        result = double(Pair(x + i, node(np.full((), i, np.float32), data)))
        np.testing.assert_array_equal(result.x, np.full(3, 2 + 2 * i))
        assert type(result.y) is Node and result.y.data is data and float(result.y.x) == i + 1
    assert len(double.known.in_nodes) + len(double.known.in_trees) == 1
    assert float(double(Pair(2.5, node(0, data))).x) == 5.0
    assert xpr.vmap(double)(Pair(x, node(x, data))).x.shape == (3,)
    compiled = double.lower(Pair(x, node(x, data))).compile()
    assert [float(compiled(Pair(x, node(x, data))).y.x[0]) for _ in range(2)] == [2.0, 2.0]
    assert compiled.known.in_nodes or compiled.known.in_trees
    Data.__hash__ = lambda self: 0
    with pytest.raises(ValueError, match="checking equality of metadata fields of pytree arguments"):
        for each in (Data(), Data()):
            double(Pair(x, node(x, each)))


class TestRefusedFunctions:
    @pytest.mark.parametrize("transform", [xpr.jit, xpr.grad, xpr.vmap, xpr.pmap, xpr.checkpoint, xpr.make_jaxpr])
    def test_generators_and_staticmethods(self, transform):
        def rows(x):
            yield x

        with pytest.raises(
            TypeError, match="Expected a function, got a generator function: rows at .* Return a list of what it yields"
        ):
            transform(rows)
        with pytest.raises(TypeError, match="staticmethod arguments are not supported. Write @staticmethod above @"):
            transform(staticmethod(lambda x: x))

    def test_names_by_which_no_argument_is_passed(self):
        def f(a, /, b, *args, **kwargs):
            return a

        xpr.jit(f, static_argnames=("b", "other"))
        for name in ("a", "args"):
            with pytest.raises(ValueError, match=f"has '{name}', and the names by which f at .* takes arguments are b"):
                xpr.jit(f, static_argnames=name)
        with pytest.raises(
            ValueError, match="static_argnames and donate_argnames cannot intersect, and 'x' is in both"
        ):
            xpr.jit(lambda x: x, static_argnames="x", donate_argnames="x")
        for static, donated in (
            ({"static_argnums": 0}, {"donate_argnums": 0}),
            ({"static_argnames": "x"}, {"donate_argnums": 0}),
        ):
            with pytest.raises(
                ValueError, match="cannot intersect, and 'x' is in both: a static argument has no memory"
            ):
                xpr.jit(lambda x: x, **static, **donated)
        with pytest.raises(ValueError, match="static_argnums and donate_argnums cannot intersect, and 1 is in both"):
            xpr.jit(lambda *xs: xs, static_argnums=1, donate_argnums=(0, 1))

    def test_masked_arrays(self):
        with pytest.raises(ValueError, match=r"numpy masked arrays are not supported: .* Take x.filled\(0\)"):
            xpr.jit(lambda x: x)(np.ma.array([1, 2], mask=[True, False]))


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**100])
def test_integers_that_do_not_fit(number):
    for f in (xpr.jit(lambda x: x), xpr.jit(lambda x: x + 0), jnp.asarray, xpr.device_put):
        with pytest.raises(
            OverflowError, match=f"Python int {number} too (large to convert to|small for) int32. Switch 64-bit"
        ):
            f(number)
    for f in (xpr.jit(lambda a, x: x), xpr.jit(lambda a, x: a + x["n"])):
        with pytest.raises(OverflowError, match=rf"An overflow .*, whose argument path is x\['n'\]. .* {number}"):
            f(1, {"m": 2, "n": number})


def test_cache_size():
    f = xpr.jit(lambda x: x + 1)
    assert f._cache_size() == 0
    f(1), f(1.0), f(2.0)
    assert f._cache_size() == 2


@pytest.mark.parametrize("first", [np.ones(3, np.float32), jnp.ones(3), 2.0])
def test_calls_by_values_of_all_libraries_share_no_results(first):
    """Later calls of a kind are looked up by types alone; kinds are arrays, NumPy's, and Python numbers."""
    double = xpr.jit(lambda x: x + x)
    double(first)
    for _ in range(3):
        for x in (1, True, 1.0, -0.0, 0.0, float("nan"), 2**31 - 1, np.arange(3, dtype=np.float32), jnp.arange(3), 1j):
            got, wanted = double(x), jnp.add(x, x)
            assert got.aval == wanted.aval and got.tobytes() == wanted.tobytes()
    with pytest.raises(OverflowError):
        double(2**31)


def test_arguments_of_numpy_may_change_after_a_call():
    double = xpr.jit(lambda x, tree: x + tree["a"])
    x = np.ones(64, np.float32)
    results = []
    for _ in range(3):
        results.append(double(x, {"a": x}))
        x += 1
    assert [float(result[0]) for result in results] == [2, 4, 6]


def test_donation_by_name_needs_a_signature():
    class Unsigned:
        __signature__ = 3

        def __call__(self, *args):
            return None

    message = "donate_argnames names 'a'. Getting the signature of function .* failed. Pass donate_argnums instead"
    with pytest.raises(ValueError, match=message):
        xpr.jit(Unsigned(), donate_argnames="a")


def test_deleted_arrays_stay_where_they_were():
    x = xpr.device_put(jnp.ones(2), xpr.devices()[0])
    x.delete()
    with pytest.raises(RuntimeError, match="was deleted, or donated"):
        xpr.device_put(x, xpr.devices()[0])


@xpr.jit
def pickled_by_name(x):
    return x + 1


def test_pickles_of_local_functions():
    """cloudpickle writes the attributes of functions, too."""
    cloudpickle = pytest.importorskip("cloudpickle")
    inner = xpr.jit(lambda x, y: x * y)
    outer = xpr.jit(lambda z: inner(z, z + 7))
    expected = outer(3.0)
    assert pickle.loads(cloudpickle.dumps(outer))(3.0) == expected


@pytest.mark.parametrize("transform", [xpr.vmap, xpr.grad, xpr.jacfwd, xpr.checkpoint, xpr.hessian, jnp.vectorize])
def test_pickles_of_transformed_functions(transform):
    """They hold the settings of the process, which are those of the one that reads them."""
    cloudpickle = pytest.importorskip("cloudpickle")
    transformed, x = transform(lambda x: x**3), jnp.float32(2)
    x = jnp.ones(3) if transform is xpr.vmap else x
    assert (pickle.loads(cloudpickle.dumps(transformed))(x) == transformed(x)).all()
    assert pickle.loads(pickle.dumps(settings)) is settings


def test_pickles():
    pickled_by_name(1.0)
    assert pickle.loads(pickle.dumps(pickled_by_name)) is pickled_by_name
    product = xpr.jit(operator.mul, static_argnums=1, donate_argnums=0)
    product(2.0, 3)
    again = pickle.loads(pickle.dumps(product))
    assert again(2.0, 4) == 8 and again.options.static_argnums == (1,) and again.options.donate_argnums == (0,)


def test_device_get_leaves_traced_arrays():
    def f(x):
        traced, key, number, array = xpr.device_get((x, xpr.random.key(0), 2, np.ones(2)))
        assert traced is x and number == 2 and type(array) is np.ndarray
        return traced

    assert xpr.jit(f)(3.0) == 3
    assert type(xpr.device_get(jnp.ones(2))) is np.ndarray


def test_what_jitted_functions_are_called():
    def f(x):
        return x

    class Unprintable:
        def __call__(self, x):
            return x

        def __repr__(self):
            raise ValueError("no text")

    assert repr(xpr.jit(f)) == f"<PjitFunction of {f!r}>"
    assert repr(xpr.jit(Unprintable())) == "<PjitFunction>"
    renamed = partial(f)
    renamed.__name__ = "renamed"
    for fun, name in ((f, "f"), (partial(partial(f)), "f"), (renamed, "renamed"), (lambda: 1, "<lambda>")):
        assert xpr.jit(fun).__getstate__()["function_name"] == name


def test_programs_say_on_how_many_devices_they_run():
    first, *_ = xpr.jit(lambda x: x + 1).lower(1.0).as_text().splitlines()
    assert first == "module @_lambda_ attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {"
