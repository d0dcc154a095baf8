"""Jaxprs as values: equality and hash, pickles and copies, saved files, variables, effects, substitution."""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import xpr
import xpr.jaxpr
import xpr.numpy as jnp
from tests.jaxpr_rows import ROWS, jaxprs_of, with_holes
from tests.test_jaxpr_text import PARAMETERS, free, one_of_three  # noqa: F401  # free is a fixture
from xpr import core, lax
from xpr.ad_checkpoint import checkpoint_name
from xpr.core.source import summarize, text_of
from xpr.errors import HoleError, JaxprSyntaxError
from xpr.jaxpr import dumps, effects, equal, loads, parse, substitute, unused_variables, used_variables
from xpr.text.literals import DTYPES
from xpr.text.parameters import parameter_text

F32 = np.float32


def make(fun, *args):
    return xpr.make_jaxpr(fun)(*args)


# -- Laws over the op table


@pytest.mark.parametrize("row", ROWS, ids=[str(row.primitive) for row in ROWS])
def test_saved_copied_and_hashed(row):
    for closed in jaxprs_of(row):
        expected = with_holes(closed)
        text = dumps(closed)
        again = loads(text)
        assert equal(again, expected) and xpr.jaxpr.hash(again) == xpr.jaxpr.hash(expected)
        assert dumps(again) == text
        assert _types(again) == _types(closed)  # weak types included, which equality doesn't ask for
        assert equal(copy.deepcopy(closed), closed)
        assert equal(pickle.loads(pickle.dumps(expected)), expected)


def _types(closed):
    jaxpr = closed.jaxpr
    variables = [*jaxpr.constvars, *jaxpr.invars, *(v for eqn in jaxpr.eqns for v in eqn.outvars)]
    # axes over which values vary, and meshes of Auto axes, are found anew where a program runs
    return [v.aval.with_varying(frozenset()).on_mesh(None) for v in variables], [type(v) for v in variables]


# -- Equality


def test_names_do_not_count_and_order_does():
    closed = make(lambda x, y: (x * y, jnp.sin(x)), 1.0, 2.0)
    assert equal(closed, make(lambda a, b: (a * b, jnp.sin(a)), 5.0, 6.0))
    assert equal(closed, copy.deepcopy(closed)) and equal(closed, closed.jaxpr) and equal(closed.jaxpr, closed)
    for other in (
        make(lambda x, y: (y * x, jnp.sin(x)), 1.0, 2.0),
        make(lambda x, y: (x * y, jnp.sin(y)), 1.0, 2.0),
        make(lambda x, y: (x * y, jnp.cos(x)), 1.0, 2.0),
        make(lambda x, y: (jnp.sin(x), x * y)[::-1], 1.0, 2.0),
        make(lambda x, y: (x * y, jnp.sin(x)), jnp.ones(2), 2.0),
        make(lambda x, y, z: (x * y, jnp.sin(x)), 1.0, 2.0, 3.0),
        make(lambda x, y: (x * y,), 1.0, 2.0),
    ):
        assert not equal(closed, other) and xpr.jaxpr.hash(closed) != xpr.jaxpr.hash(other)


def test_literals_are_compared_by_type_and_bits():
    def with_literal(value):
        return make(lambda: lax.neg(value))

    values = [0.0, -0.0, 0, False, np.nan, np.inf, 1.0, np.float16(1), np.int8(0), 0j, complex(0.0, -0.0)]
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            try:
                left, right = with_literal(a), with_literal(b)
            except TypeError:  # neg of a boolean
                continue
            assert equal(left, right) == (i == j), (a, b)
    assert equal(with_literal(np.nan), with_literal(-np.float32(np.nan)))


@pytest.mark.parametrize("value", PARAMETERS, ids=parameter_text)
def test_parameters_are_compared_by_type_and_value(value, free):  # noqa: F811  # the fixture
    def with_parameter(x):
        return core.Jaxpr([], [], [], [core.JaxprEqn([], [], free, {"p": x})])

    alike = [other for other in PARAMETERS if equal(with_parameter(value), with_parameter(other))]
    assert alike == [value] or np.isnan(alike[0])
    assert equal(loads(dumps(with_parameter(value))), with_parameter(value))
    assert equal(pickle.loads(pickle.dumps(with_parameter(value))), with_parameter(value))


def test_constants_are_compared():
    def with_constant(table):
        return make(lambda x: x * table, np.ones(2, F32))

    a = with_constant(np.array([1, np.nan], F32))
    assert equal(a, with_constant(np.array([1, np.nan], F32))) and not equal(a, a.jaxpr)
    assert not equal(a, with_constant(np.array([1, 2], F32)))
    assert not equal(with_constant(np.array([0.0, 1], F32)), with_constant(np.array([-0.0, 1], F32)))


def test_functions_are_compared_as_objects():
    def custom(rule):
        f = xpr.custom_jvp(lambda x: jnp.sin(x))
        f.defjvp(rule)
        return f

    rule = lambda primals, tangents: (primals[0], tangents[0])
    f = custom(rule)
    a, b = make(f, 1.0), make(custom(rule), 1.0)
    assert equal(a, a.replace(jaxpr=a.jaxpr.replace())) and not equal(a, b)
    assert equal(with_holes(a), with_holes(b)) and not equal(a, with_holes(a))


def test_used_or_not_a_result_is_the_same():
    jaxpr = make(lambda x: (jnp.sin(x), x)[1], 1.0).jaxpr
    (eqn,) = jaxpr.eqns
    dropped = jaxpr.replace(eqns=[eqn.replace(outvars=[core.DropVar(eqn.outvars[0].aval)])])
    assert equal(jaxpr, dropped)


def test_a_tracer_among_the_constants_is_equal_to_itself():
    def outer(x):
        closed = make(lambda y: y * x, 1.0)
        assert equal(closed, closed.replace()) and not equal(closed, make(lambda y: y * (x + 1), 1.0))
        return x

    xpr.jit(outer)(1.0)


# -- Pickles and copies


def test_a_pickle_keeps_lines_and_constants_and_forgets_what_was_derived():
    table = np.arange(3, dtype=F32)
    closed = make(lambda x: jnp.sin(x) * table, np.ones(3, F32))
    closed.jaxpr.memo["made"] = lambda: None
    for again in (pickle.loads(pickle.dumps(closed)), copy.deepcopy(closed), loads(dumps(closed))):
        assert equal(again, closed) and not again.jaxpr.memo
        assert again.jaxpr.invars[0] is not closed.jaxpr.invars[0]
        assert summarize(again.eqns[0].source) == summarize(closed.eqns[0].source)
        assert text_of(again.eqns[0].source).startswith("closed = make(lambda x")
        assert again.pformat(source=True) == closed.pformat(source=True)


def test_units_stay_the_same(free):  # noqa: F811
    for same in (lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy):
        assert same(core.unit) is core.unit and same(core.unitvar) is core.unitvar
    closed = parse("{ lambda ; a:f32[] *. let * b:f32[] = free a * in (b, *) }")
    assert equal(loads(dumps(closed)), closed) and str(loads(dumps(closed))) == str(closed)


@xpr.custom_vjp
def doubled(x):
    return 2.0 * x


doubled.defvjp(lambda x: (doubled(x), None), lambda _, ct: (2.0 * ct,))


@pytest.mark.parametrize("parameter, fun", [
    ("callback=<function <lambda>> of pure_callback", lambda x: xpr.pure_callback(lambda y: y, x, x)),
    ("fwd=<function fwd> of custom_vjp_call", lambda x: xpr.jit(doubled)(x)),
    ("jvp=<function jvp> of ", lambda x: lax.custom_root(lambda y: y - x, 1.0, lambda f, y: x, lambda g, y: y / g(1))),
])  # fmt: skip
def test_a_pickle_of_a_function_that_has_no_name(parameter, fun):
    closed = xpr.make_jaxpr(fun)(1.0)
    with pytest.raises(pickle.PicklingError, match="holds a Python function that can't be pickled") as caught:
        pickle.dumps(closed)
    assert parameter in str(caught.value)
    assert "test_jaxpr_values.py:" in str(caught.value) and "xpr.jaxpr.dumps saves the program" in str(caught.value)
    assert equal(loads(dumps(closed)), with_holes(closed))
    assert all(equal(copied(closed), closed) for copied in (copy.copy, copy.deepcopy))
    assert repr(copy.copy(closed.eqns[0])) == repr(closed.eqns[0])


def test_a_pickle_of_a_primitive_that_is_not_there():
    text = pickle.dumps(make(jnp.sin, 1.0)).replace(b"\x8c\x03sin", b"\x8c\x03sni")
    with pytest.raises(LookupError, match="no primitive named 'sni' here: import the module that makes it first"):
        pickle.loads(text)


# -- Saved files


def test_arrays_of_every_dtype_are_saved():
    for dtype in DTYPES.values():
        array = np.zeros((2, 0), dtype) if dtype == DTYPES["float0"] else np.arange(6).reshape(2, 3).astype(dtype)
        var = core.Var(core.ShapedArray(array.shape, dtype))
        closed = core.ClosedJaxpr(core.Jaxpr([var], [], [var], []), [array])
        again = loads(dumps(closed))
        assert equal(again, closed)
        assert np.asarray(again.consts[0]).dtype == dtype


def test_shared_jaxprs_are_saved_once():
    inner = xpr.jit(lambda x: jnp.sin(x) * 2.0)
    closed = make(lambda x: inner(inner(x)), 1.0)
    again = loads(dumps(closed))
    assert len(json.loads(dumps(closed))["jaxprs"]) == 2
    first, second = again.eqns
    assert first.params["call_jaxpr"] is second.params["call_jaxpr"]


def test_another_process_reads_a_file(tmp_path):
    closed = make(lambda k: xpr.random.gamma(k, 2.0, (3,)), xpr.random.PRNGKey(0))
    (tmp_path / "saved.json").write_text(dumps(closed))
    (tmp_path / "text").write_text(str(closed))
    code = (
        "import sys, xpr, xpr.jaxpr as language\n"
        "closed = language.loads(open(sys.argv[1]).read())\n"
        "print(language.equal(closed, language.parse(open(sys.argv[2]).read())))"
    )
    files = [str(tmp_path / "saved.json"), str(tmp_path / "text")]
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


def policies():
    given = xpr.checkpoint_policies
    yield from (given.everything_saveable, given.nothing_saveable, given.dots_saveable, given.checkpoint_dots)
    yield from (given.dots_with_no_batch_dims_saveable, given.checkpoint_dots_with_no_batch_dims)
    names = given.save_only_these_names("b", "a"), given.save_any_names_but_these("a")
    yield from (*names, given.save_anything_except_these_names("a"), given.save_from_both_policies(*names))
    yield given.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"], names_which_can_be_offloaded=[], offload_src="device", offload_dst="pinned_host"
    )


def test_policies_of_the_library_are_saved():
    """In text, files and pickles; the gradient of what is read back saves what the policy says."""
    x, saved = jnp.ones((2, 2)), set()

    def pulled_back(closed):
        return str(make(lambda x: xpr.vjp(core.jaxpr_as_fun(closed), x)[1]([x]), x))

    for policy in policies():
        closed = make(xpr.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.sin(x @ x), "a")), policy=policy), x)
        saved.add(str(closed))
        for again in (loads(dumps(closed)), parse(str(closed)), pickle.loads(pickle.dumps(closed))):
            assert equal(again, closed) and str(again) == str(closed)
            assert pulled_back(again) == pulled_back(closed) and not xpr.jaxpr.functions(again)
    assert len(saved) == 9


def test_policies_differ_by_what_they_say():
    given = xpr.checkpoint_policies
    assert given.save_only_these_names("a", "b") == given.save_only_these_names("b", "a")
    assert given.save_only_these_names("a") != given.save_any_names_but_these("a")


ROWS_OF_LOOPS = {
    "while": lambda x: lax.while_loop(lambda c: c < 10, lambda c: c + jnp.sin(c) ** 2 + 1, x),
    "until": lambda x: lax.scan(lambda c, y: (c + y, c), x, jnp.ones(4), until=lambda c: c > 3),
    "fori": lambda x: lax.fori_loop(0, x.astype(int), lambda i, c: c * x, x),
    "cond": lambda x: lax.cond(x > 1, jnp.sin, jnp.cos, x),
}


@pytest.mark.parametrize("name", ROWS_OF_LOOPS)
def test_mapped_loops_are_saved_with_their_rules(name):
    mapped = lambda x: sum(jnp.sum(y) for y in xpr.tree.leaves(xpr.vmap(ROWS_OF_LOOPS[name])(x)))
    x = jnp.array([0.5, 1.0, 2.0])
    for fun in (mapped, xpr.jit(mapped), lambda x: xpr.vmap(mapped)(x[None]).sum()):
        closed = make(fun, x)
        for again in (loads(dumps(closed)), parse(str(closed)), pickle.loads(pickle.dumps(closed))):
            assert equal(again, closed) and not xpr.jaxpr.functions(again)
            _, tangent = xpr.jvp(core.jaxpr_as_fun(again), (x,), (jnp.ones(3),))
            np.testing.assert_allclose(tangent[0], xpr.jvp(fun, (x,), (jnp.ones(3),))[1], rtol=1e-6)


def test_saved_lines_name_no_folders_outside_of_the_project(tmp_path, monkeypatch):
    """Files are named relative to the project; those elsewhere by their names alone; or no lines are saved."""
    folder = tmp_path / "home" / "project" / "models"
    folder.mkdir(parents=True)
    names = {"inside": folder / "net.py", "outside": tmp_path / "home" / "other.py", "none": "<stdin>"}
    closed = {}
    for name, file in names.items():
        space = {}
        exec(compile("def f(x):\n    return x * 2.0", str(file), "exec"), space)
        closed[name] = xpr.make_jaxpr(space["f"])(1.0)
    files = {name: json.loads(dumps(c, project=folder.parent))["sources"][0][0] for name, c in closed.items()}
    assert files == {"inside": "models/net.py", "outside": "other.py", "none": "<stdin>"}
    monkeypatch.chdir(folder)
    assert json.loads(dumps(closed["inside"]))["sources"] == [["net.py", 2, "f"]]
    assert json.loads(dumps(closed["inside"], project=tmp_path / "elsewhere"))["sources"] == [["net.py", 2, "f"]]
    assert json.loads(dumps(closed["inside"], project=None))["sources"] == []
    assert loads(dumps(closed["inside"], project=None)).eqns[0].source is None
    again = loads(dumps(closed["inside"], project=folder.parent))
    assert json.loads(dumps(again))["sources"] == [["models/net.py", 2, "f"]]
    with pytest.raises(TypeError, match="dumps: project is the path of a folder or None, and is 3 of type"):
        dumps(closed["inside"], project=3)


def test_functions_and_constants_are_holes():
    @xpr.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), 5.0 * tangents[0]))
    closed = make(sine, 1.0)
    holed = core.jaxpr_as_fun(loads(dumps(closed)))
    with pytest.raises(HoleError, match="<function jvp> is a hole"):
        xpr.jvp(holed, (2.0,), (1.0,))
    assert equal(loads(dumps(closed), functions={"jvp": closed.eqns[0].params["jvp"]}), closed)
    empty = parse("{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = mul a b in (c,) }")
    assert equal(loads(dumps(empty)), empty) and equal(loads(dumps(empty.jaxpr)), empty)


def test_a_constant_that_is_being_traced_is_not_saved():
    def outer(x):
        with pytest.raises(TypeError, match=r"A constant of type f32\[\] has no value yet, so it can't be saved"):
            dumps(make(lambda y: y * x, 1.0))
        return x

    xpr.jit(outer)(1.0)


# One file of each minor version, as it was written then: they stay readable.
VERSION_1_0 = (
    '{"format":"xpr.jaxpr","version":[1,0],"types":["f32[2]","~f32[]"],"sources":[["train.py",41,"loss"]],'
    '"jaxprs":[{"constvars":[0],"invars":[0,1],"eqns":[["mul",[0,1],[0],{},0],["add",[3,{"literal":2.0,"type":1}],[0],'
    '{}],["reduce_sum",[4],[[1,"_"]],{"axes":[0]}]],"outvars":[4]}],"main":0,'
    '"constants":[{"type":0,"data":"AACAPwAAAEA="}]}'
)


VERSION_1_1 = (
    '{"format":"xpr.jaxpr","version":[1,1],"types":["f32[]"],"sources":[],"jaxprs":[{"constvars":[],"invars":[0],"eqns":[],'
    '"outvars":[0]},{"constvars":[],"invars":[0],"eqns":[["custom_vmap_call",[0],[0],{"call_jaxpr":{"jaxpr":0},'
    '"name":"f","rule":{"hole":["function","rule"]}}],["custom_vmap_call",[1],[0],{"call_jaxpr":{"jaxpr":0},"name":"f",'
    '"rule":{"hole":["function","rule",1]}}]],"outvars":[2]}],"main":1,"constants":[]}'
)


def test_files_distinguish_functions_of_one_name():
    closed = loads(VERSION_1_1, functions={"rule": [abs, max]})
    assert [eqn.params["rule"] for eqn in closed.eqns] == [abs, max]
    assert [eqn.params["rule"] for eqn in loads(VERSION_1_1, functions={"rule": abs}).eqns] == [abs, abs]


def test_files_of_earlier_versions_are_read():
    closed = loads(VERSION_1_0)
    assert (
        str(closed)
        == """\
{ lambda a:f32[2]; b:f32[2] c:f32[]. let
    d:f32[2] = mul a b
    e:f32[2] = add d 2.0
    _:f32[] = reduce_sum[axes=(0,)] e
  in (e,) }"""
    )
    np.testing.assert_array_equal(closed.consts[0], [1, 2])
    assert summarize(closed.eqns[0].source) == "train.py:41 (loss)"


@pytest.mark.parametrize("version, age", [([1, 2], "newer"), ([2, 0], "newer"), ([0, 9], "older")])
def test_files_of_other_versions_say_so(version, age):
    text = VERSION_1_0.replace("[1,0]", str(version))
    with pytest.raises(
        JaxprSyntaxError, match=rf"saved in format {version[0]}.{version[1]}, .*an? {age} xpr is needed"
    ):
        loads(text)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text[:-5], "This is no saved jaxpr: it is not JSON"),
        (lambda text: "[1]", 'it has no "format": "xpr.jaxpr"'),
        (lambda text: text.replace("[1,0]", '"1"'), "its version is '1'"),
        (lambda text: text.replace('"mul"', '"mull"'), "no primitive `mull` here; did you mean `mul`?"),
        (lambda text: text.replace("f32[2]", "f33[2]"), "no dtype `f33` here; did you mean `f32`?"),
        (lambda text: text.replace('"outvars":[4]', '"outvars":[9]'), "damaged: 9 is no index into 6"),
        (lambda text: text.replace("AACA", "AAC"), "This saved jaxpr is damaged: "),
        (lambda text: text.replace('"main":0,', ""), "This saved jaxpr is damaged: KeyError: 'main'"),
        (lambda text: text.replace('"axes":[0]', '"axes":{"call":"print"}'), "a parameter is {'call': 'print'}"),
        (lambda text: text.replace('"axes":[0]', '"axes":{"enum":"Precisio","name":"HIGH"}'), "no class `Precisio`"),
    ],
)
def test_damaged_files_say_so(change, message):
    with pytest.raises(JaxprSyntaxError) as caught:
        loads(change(VERSION_1_0))
    assert message in str(caught.value)


# -- Variables and effects


def test_variables_that_are_read_and_those_that_are_not():
    closed = make(lambda x, y: (jnp.sin(x), x * 2.0)[1], 1.0, 2.0)
    x, y = closed.jaxpr.invars
    sine, product = (eqn.outvars[0] for eqn in closed.eqns)
    assert used_variables(closed) == {x, product} == used_variables(closed.jaxpr)
    assert unused_variables(closed) == [v for v in (y, sine) if type(v) is not core.DropVar]


def test_effects():
    assert effects(make(jnp.sin, 1.0)) == frozenset()
    printing = make(xpr.jit(lambda x: xpr.debug.print("{}", x, ordered=True)), 1.0)
    assert effects(printing) == {"ordered"} == effects(printing.jaxpr)


def test_jaxpr_as_fun():
    assert [float(x) for x in xpr.jaxpr.jaxpr_as_fun(make(one_of_three, 1, 5.0))(2, 1.0)] == [4.0]


# -- Substitution


def test_substitution_of_values():
    closed = make(lambda x, y, z: x * y + z, 1.0, 2.0, jnp.ones(2))
    once = substitute(closed, {0: 3.0})
    assert str(once.eqns[0].invars[0]) == "Literal(3.0)" and len(once.jaxpr.invars) == 2
    twice = substitute(once, {once.jaxpr.invars[1]: np.arange(2, dtype=F32)})
    core.check_jaxpr(twice)
    assert len(twice.consts) == 1 and len(twice.jaxpr.invars) == 1
    np.testing.assert_array_equal(core.jaxpr_as_fun(twice)(2.0)[0], [6, 7])


def test_substitution_of_variables_and_constants():
    table = np.arange(2, dtype=F32)
    closed = make(lambda x, y: x * y + table, jnp.ones(2), jnp.ones(2))
    x, y = closed.jaxpr.invars
    square = substitute(closed, {y: x})
    core.check_jaxpr(square)
    np.testing.assert_array_equal(core.jaxpr_as_fun(square)(np.full(2, 3, F32))[0], [9, 10])
    other = substitute(closed, {closed.jaxpr.constvars[0]: np.full(2, 5, F32)})
    assert len(other.consts) == 1
    np.testing.assert_array_equal(core.jaxpr_as_fun(other)(table, table)[0], [5, 6])
    assert closed.consts[0] is table or np.array_equal(closed.consts[0], table)


def test_substitution_checks_types():
    closed = make(lambda x, y: x * y, 1.0, 2.0)
    with pytest.raises(TypeError, match=r"a variable of type f32\[\] is given f32\[2\]"):
        substitute(closed, {0: np.ones(2, F32)})
    with pytest.raises(TypeError, match="is no variable of the jaxpr"):
        substitute(closed, {core.Var(closed.in_avals[0]): 1.0})
    with pytest.raises(TypeError, match="is no variable of the jaxpr"):
        substitute(closed, {0: core.Var(closed.in_avals[0])})


def test_substitution_of_variables_by_each_other():
    closed = make(lambda x, y: x * y, 1.0, 2.0)
    x, y = closed.jaxpr.invars
    assert str(substitute(closed, {x: y, y: 3.0})) == "{ lambda ; . let a:f32[] = mul 3.0 3.0 in (a,) }"
    for values in ({x: x}, {x: y, y: x}):
        with pytest.raises(ValueError, match=r"a variable of type f32\[\] is replaced by itself, directly or by"):
            substitute(closed, values)
