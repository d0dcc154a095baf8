"""Regions: what a primitive says of the jaxprs that it holds is all that analyses know, also of the library's own."""

import ast
import operator
from pathlib import Path

import pytest

import xpr
import xpr.numpy as jnp
from tests.ops import table
from tests.ops.case import Case
from xpr import lax
from xpr.api.make_jaxpr import trace_function
from xpr.compile.fusion import is_fused
from xpr.control.activity import affected_outputs
from xpr.control.remat.memory import predict_memory
from xpr.core.jaxpr import eval_jaxpr, subjaxprs
from xpr.core.regions import propagate, regions_of
from xpr.extend import Primitive, Region
from xpr.inspect.tables import Tables

ROOT = Path(xpr.__file__).parent


def _as_a_call(x, y, *, body):
    return eval_jaxpr(body, (), x, y)


called_p = Primitive("called_by_a_user", multiple_results=True)
called_p.def_lowering_as(_as_a_call)
called_p.def_regions(lambda *, body: [Region(body, "call", operands=(0, 1), results=((0,), (1,)), inlined="always")])
BODY = xpr.make_jaxpr(lambda x, y: (jnp.log(x) * 2, y + 1))(1.0, 1.0).jaxpr


def mine(x, y):
    return called_p.bind(x, y, body=BODY)


def built_in(x, y):
    return xpr.jit(lambda x, y: (jnp.log(x) * 2, y + 1))(x, y)


PAIR = pytest.mark.parametrize("f", [mine, built_in])


@PAIR
def test_activity_is_followed_inside(f):
    jaxpr = xpr.make_jaxpr(f)(1.0, 1.0).jaxpr
    assert affected_outputs(jaxpr, [True, False], True) == [True, False]
    assert affected_outputs(jaxpr, [False, True], True) == [False, True]


def test_costs_are_those_of_what_is_inside():
    own, theirs = (xpr.jaxpr.cost(f)(1.0, 1.0) for f in (mine, built_in))
    assert own.flops == theirs.flops == 3
    assert [each.equation.primitive for each in own.by_equation] == [
        each.equation.primitive for each in theirs.by_equation
    ]


@PAIR
def test_calls_are_inlined(f):
    flat = xpr.jaxpr.inline_calls(xpr.make_jaxpr(f)(1.0, 1.0))
    assert [eqn.primitive.name for eqn in flat.jaxpr.eqns] == ["log", "mul", "add"]


@PAIR
def test_debug_nans_finds_the_equation_inside(f):
    with xpr.debug_nans(True), pytest.raises(FloatingPointError, match=r"^invalid value \(nan\) encountered in log"):
        f(-1.0, 1.0)


def test_dce_looks_inside():
    body = xpr.make_jaxpr(lambda x, y: (jnp.sin(x), [jnp.cos(x), y][1]))(1.0, 1.0).jaxpr
    closed = xpr.jaxpr.dce(xpr.make_jaxpr(lambda x: called_p.bind(x, x, body=body))(1.0))
    (inner,) = subjaxprs(closed.jaxpr.eqns[0])
    assert [eqn.primitive.name for eqn in inner.eqns] == ["sin"]


@PAIR
def test_the_page_shows_what_is_inside(f):
    tables = Tables(xpr.make_jaxpr(f)(1.0, 1.0).jaxpr)
    operations = tables.eqns[-1][5]
    assert "log" in tables.primitives.items and operations == 3


def test_a_loop_of_a_users():
    thrice_p = Primitive("thrice_by_a_user", multiple_results=True)

    @thrice_p.def_lowering_as
    def _(x, y, *, body):
        for _ in range(3):
            x, y = eval_jaxpr(body, (), x, y)
        return [x, y]

    thrice_p.def_regions(lambda *, body: [Region(body, "loop", (0, 1), ((0,), (1,)), carry=(0, 1), times=3)])
    body = xpr.make_jaxpr(lambda x, y: (x * y, y))(1.0, 1.0).jaxpr
    jaxpr = xpr.make_jaxpr(lambda x, y: thrice_p.bind(x, y, body=body))(1.0, 1.0).jaxpr
    assert affected_outputs(jaxpr, [True, False], False) == [True, False]
    assert affected_outputs(jaxpr, [False, True], False) == [True, True]
    assert xpr.jaxpr.cost(lambda x: thrice_p.bind(x, x, body=body))(2.0).flops == 3


def test_a_predicate_decides_all_results():
    jaxpr = xpr.make_jaxpr(lambda n, x: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, x)))(
        3, 1.0
    )
    (eqn,) = [eqn for eqn in jaxpr.jaxpr.eqns if eqn.primitive.regions]
    at = list(eqn.invars).index(jaxpr.jaxpr.invars[0])
    marked = [i == at for i in range(len(eqn.invars))]
    found = propagate(
        regions_of(eqn), marked, 2, lambda j, flags: affected_outputs(j, flags, False), operator.or_, False
    )
    assert found == [True, True]


# -- The library itself

HOLDERS = [row for row in table.ROWS if row.primitive.regions is not None]


@pytest.mark.parametrize("row", HOLDERS, ids=lambda row: row.primitive.name)
def test_regions_fit_their_equation(row):
    """They are all of its jaxprs, and operands, results and carries are as many as those have, of their types."""
    case = Case(row, row.samples[0])
    closed, _ = trace_function(case, case.operands, {}, "staged by a law")
    eqn = next(eqn for eqn in closed.jaxpr.eqns if eqn.primitive is row.primitive)
    regions = regions_of(eqn)
    assert {id(region.jaxpr) for region in regions} == {id(jaxpr) for jaxpr in subjaxprs(eqn)}
    for region in regions:
        assert len(region.operands) == len(region.jaxpr.invars)
        assert len(region.results) == len(region.jaxpr.outvars)
        assert region.carry == () or len(region.carry) == len(region.jaxpr.outvars)
        for index, var in zip(region.operands, region.jaxpr.invars):
            assert index is None or eqn.invars[index].aval.dtype == var.aval.dtype
        for indices, var in zip(region.results, region.jaxpr.outvars):
            assert all(eqn.outvars[index].aval.dtype == var.aval.dtype for index in indices)
        for argument, var in zip(region.carry, region.jaxpr.outvars):
            assert argument is None or region.jaxpr.invars[argument].aval.shape == var.aval.shape


def test_what_holds_jaxprs_says_so():
    for row in table.ROWS:
        if row.primitive.regions is None:
            case = Case(row, row.samples[0])
            closed, _ = trace_function(case, case.operands, {}, "staged by a law")
            for eqn in closed.jaxpr.eqns:
                assert eqn.primitive is not row.primitive or not list(subjaxprs(eqn)), row.primitive


def _guesses(tree):
    """Code that tells operations by their names, or by the names of their parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            asks = isinstance(node.left, ast.Constant) and right.endswith(("eqn.params", "equation.params"))
            if asks or left.endswith("primitive.name") or right.endswith("primitive.name"):
                yield node.lineno, ast.unparse(node)


ARGUMENTS = {
    "sparsity/propagation.py": "a rule asks for an optional parameter of its own primitive",
}


def test_no_analysis_tells_operations_by_their_names():
    found = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path in sorted(ROOT.rglob("*.py"))
        if str(path.relative_to(ROOT)) not in ARGUMENTS
        for line, text in _guesses(ast.parse(path.read_text()))
    ]
    assert not found, found


def test_elementwise_primitives_of_users_are_fused():
    swish_p = Primitive("swish_by_a_user", fusion="expensive")
    swish_p.def_lowering_as(lambda x: x * lax.logistic(x))
    jaxpr = xpr.make_jaxpr(lambda x: swish_p.bind(x) + swish_p.bind(x * 2))(jnp.ones(8)).jaxpr
    assert all(is_fused(eqn) for eqn in jaxpr.eqns)
    assert predict_memory(jaxpr).temporaries == 0
