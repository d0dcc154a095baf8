"""Calls of one jaxpr, whose rules are made alike, and the arguments of calls, which are flattened once."""

import re

import numpy as np
import pytest

import xpr
from xpr.core import ShapedArray, check_jaxpr
from xpr.core.avals import same_types, types_of
from xpr.sharding import PartitionSpec as P
from xpr.transforms.calls import Call

X = np.ones((1, 3), np.float32)
F32 = {shape: ShapedArray(shape, "float32") for shape in [(1, 3), (1, 4), (2, 3)]}


def double(x):
    return 2 * x


FAMILIES = {
    "xla_call": (xpr.jit(double), "xla_call: double takes (f32[1,3]) and was given (f32[1,4])."),
    "checkpoint": (xpr.checkpoint(double), "checkpoint: the jaxpr takes (f32[1,3]) and was given (f32[1,4])."),
    "xla_pmap": (
        xpr.pmap(double),
        "xla_pmap: double takes rows (f32[3]) and was given (f32[4]), of which 1 rows are along the axes (0,).",
    ),
    "shard_map": (
        xpr.shard_map(double, mesh=xpr.make_mesh((1,), ("x",)), in_specs=P("x"), out_specs=P("x")),
        "shard_map: parts of the types (f32[1,3]) are taken, and (f32[1,4]) given.",
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_operands_have_the_types_that_the_jaxpr_takes(name):
    fun, message = FAMILIES[name]
    (eqn,) = xpr.make_jaxpr(fun)(X).eqns
    assert eqn.primitive.name == name
    for _ in range(2):
        (out,) = eqn.primitive.type_of((F32[1, 3],), eqn.params)
        assert out.on_mesh(None) is F32[1, 3]  # that of shard_map is on its mesh
    with pytest.raises(TypeError, match=re.escape(message)):
        eqn.primitive.type_of((F32[1, 4],), eqn.params)
    for wrong in ((), (F32[1, 3], F32[1, 3])):
        with pytest.raises(TypeError, match="takes|are taken"):
            eqn.primitive.type_of(wrong, eqn.params)


def test_a_pmap_has_as_many_rows_as_devices():
    (eqn,) = xpr.make_jaxpr(xpr.pmap(double))(X).eqns
    with pytest.raises(TypeError, match="of which 1 rows are along the axes"):
        eqn.primitive.type_of((F32[2, 3],), eqn.params)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_rules_make_is_well_typed(name):
    fun, _ = FAMILIES[name]
    for transformed in (
        xpr.grad(lambda x: (fun(x) * x).sum()),
        xpr.vmap(fun),
        lambda x: xpr.jvp(fun, (x,), (x,)),
        xpr.hessian(lambda x: (fun(x) ** 3).sum()),
    ):
        x = np.stack([X, X]) if transformed.__name__ == "double" else X
        closed = xpr.make_jaxpr(transformed)(x)
        check_jaxpr(closed)
        check_jaxpr(xpr.jaxpr.dce(closed))
        assert name in str(closed)


def test_types():
    weak = ShapedArray((1, 3), "float32", True)
    assert same_types([F32[1, 3]], (weak,)) and same_types([], ())
    assert not same_types([F32[1, 3]], [F32[1, 4]]) and not same_types([F32[1, 3]], [])
    assert types_of([F32[1, 3], 1, X]) == "f32[1,3], i32[], f32[1,3]"


def test_the_arguments_of_a_call():
    call = Call((1.0, "relu", [2.0, 3.0]), {"axis": 0, "scale": 4.0}, {1: "relu", "axis": 0})
    assert call.dynamic == ((1.0, [2.0, 3.0]), {"scale": 4.0}) and call.leaves == [1.0, 2.0, 3.0, 4.0]

    def fun(x, kind, ys, *, axis, scale):
        return x, kind, ys, axis, scale

    assert call.names(fun) == ["x", "ys[0]", "ys[1]", "scale"]
    assert call.of_dynamic(fun)(*call.dynamic[0], **call.dynamic[1]) == (1.0, "relu", [2.0, 3.0], 0, 4.0)


def test_calls_are_distinguished_by_static_arguments():
    keys = set()
    for static in (0, 0.0, -0.0, False, "a"):
        call = Call((1.0, static), {}, {1: static})
        call.typed([ShapedArray((), "float32")])
        keys.add(call.key)
    assert len(keys) == 5
