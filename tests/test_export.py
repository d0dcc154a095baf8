"""`xpr.export`: functions as portable programs, which JAX reads and whose own are read; compiled programs as files."""

import re
import subprocess
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import JAX
from xpr import core, export
from xpr.artifacts import flatbuffers, schema
from xpr.artifacts.trees import tree_as_table, tree_of_table
from xpr.config import override
from xpr.errors import TreeMismatch
from xpr.experimental.serialize_executable import deserialize_and_load, serialize

try:
    import flatbuffers as _peers_flatbuffers  # noqa: F401  # JAX's serialization needs it
except ImportError:
    JAX = None
exchanges = pytest.mark.skipif(JAX is None, reason="exchanges files with jax; it or flatbuffers is not installed")

W = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
X = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)


def layer(params, x, *, k):
    return {"y": jnp.sin(x) @ params["w"] * k, "n": jnp.arange(3)}


@pytest.fixture(scope="module")
def exported():
    return export.export(xpr.jit(layer))({"w": W}, X, k=2.0)


def loss(call):
    return lambda params, x: (call(params, x, k=3.0)["y"] ** 2).sum()


def reread(exported, vjp_order=0):
    return export.deserialize(exported.serialize(vjp_order))


def same(got, want, rtol=1e-6):
    assert xpr.tree.structure(got) == xpr.tree.structure(want)
    for x, y in zip(xpr.tree.leaves(got), xpr.tree.leaves(want), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol)


# -- What is exported


def test_an_exported_function_says_what_it_takes_and_gives(exported):
    assert exported.fun_name == "layer" and repr(exported) == "Exported(fun_name=layer, ...)"
    assert str(exported.in_avals[:2]) == "(ShapedArray(float32[4,3]), ShapedArray(float32[2,4]))"
    assert str(exported.out_avals) == "(ShapedArray(int32[3]), ShapedArray(float32[2,3]))"
    assert exported.platforms == (export.default_export_platform(),) and exported.nr_devices == 1
    assert exported.module_kept_var_idx == (0, 1, 2) and not exported.uses_global_constants
    assert exported.calling_convention_version == export.maximum_supported_calling_convention_version
    assert "stablehlo.sine" in exported.mlir_module()
    assert exported.mlir_module(serialized=False).operation.name == "builtin.module"


@pytest.mark.parametrize("again", [False, True], ids=["fresh", "read"])
def test_it_is_called_and_transformed_like_the_function(exported, again):
    made = reread(exported, vjp_order=2) if again else exported
    whole, params = xpr.jit(layer), {"w": W}
    same(made.call(params, X, k=2.0), whole(params, X, k=2.0))
    same(xpr.jit(made.call)(params, X, k=2.0), whole(params, X, k=2.0))
    for argnum in (0, 1):
        found = xpr.jit(xpr.grad(loss(made.call), argnum))(params, X)
        same(found, xpr.grad(loss(whole), argnum)(params, X), 1e-5)
    tangents = ({"w": W}, X)
    same(xpr.jvp(loss(made.call), (params, X), tangents), xpr.jvp(loss(whole), (params, X), tangents), 1e-5)
    rows = jnp.stack([X, X + 1, X - 1])
    each = (None, 0)
    same(xpr.vmap(loss(made.call), each)(params, rows), xpr.vmap(loss(whole), each)(params, rows), 1e-5)
    gradients = [xpr.vmap(xpr.grad(loss(f), 1), each)(params, rows) for f in (made.call, whole)]
    same(*gradients, 1e-5)

    def twice(call):
        return xpr.grad(lambda k: xpr.grad(lambda k: (call(params, X, k=k)["y"] ** 3).sum())(k) ** 2)(3.0)

    same(twice(made.call), twice(whole), 1e-5)


def test_derivatives_beyond_those_that_were_written_are_refused(exported):
    without = reread(exported)
    assert not without.has_vjp() and exported.has_vjp()
    with pytest.raises(ValueError, match="layer has no vjp. Serialize it with a larger vjp_order"):
        xpr.grad(loss(without.call))({"w": W}, X)
    once = reread(exported, vjp_order=1)
    with pytest.raises(ValueError, match="layer_vjp has no vjp"):
        xpr.jvp(loss(once.call), ({"w": W}, X), ({"w": W}, X))
    with pytest.raises(ValueError, match="layer has no vjp"):
        without.serialize(vjp_order=1)


def test_calls_are_in_jaxprs_and_in_other_exports(exported):
    outer = export.export(xpr.jit(lambda x: exported.call({"w": W}, 2 * x, k=1.0)["y"]))(X)
    same(reread(outer).call(X), layer({"w": W}, 2 * X, k=1.0)["y"])
    jaxpr = xpr.make_jaxpr(lambda x: exported.call({"w": W}, x, k=1.0))(X)
    assert "call_exported[" in str(jaxpr) and "Exported(fun_name=layer, ...)" in str(jaxpr)


def test_constants_are_part_of_the_program():
    table, mask = np.arange(1000, dtype=np.float32), np.arange(70) % 3 == 0
    exported = export.export(xpr.jit(lambda x: ((x + table).sum(), jnp.where(mask, x, 0).sum())))(1.0)
    same(reread(exported).call(2.0), (jnp.float32((table + 2).sum()), jnp.float32(2 * mask.sum())))


def test_random_keys_and_integers():
    exported = export.export(xpr.jit(lambda key, n: (xpr.random.normal(key, (3,)), n + 1)))(xpr.random.key(0), 3)
    same(reread(exported).call(xpr.random.key(7), 1), (xpr.random.normal(xpr.random.key(7), (3,)), jnp.int32(2)))
    x, n = jnp.ones(3), jnp.arange(3)
    scaled = export.export(xpr.jit(lambda x, n: (x * n, n)))(x, n)
    assert [aval.str_short() for aval in scaled.vjp().out_avals] == ["f32[3]", "float0[3]"]
    same(xpr.grad(lambda x: reread(scaled, 1).call(x, n)[0].sum())(x), jnp.arange(3.0))


def test_static_arguments_are_left_out():
    exported = export.export(xpr.jit(lambda n, x: x[:n], static_argnums=0))(2, jnp.arange(4))
    same(exported.call(jnp.arange(4)), jnp.arange(2))


# -- Platforms and checks


def test_platforms(exported):
    both = reread(export.export(xpr.jit(layer), platforms=("tpu", "cpu"))({"w": W}, X, k=2.0), 1)
    assert both.platforms == ("tpu", "cpu") and both.uses_global_constants
    assert "jax.uses_shape_polymorphism = true" in both.mlir_module()
    same(both.call({"w": W}, X, k=2.0), exported.call({"w": W}, X, k=2.0))
    same(xpr.grad(loss(both.call), 1)({"w": W}, X), xpr.grad(loss(exported.call), 1)({"w": W}, X), 1e-5)
    away = export.export(xpr.jit(jnp.sin), platforms=["tpu"])(1.0)
    with pytest.raises(ValueError, match="Function sin was exported for platforms tpu, and is called on cpu. Export"):
        away.call(1.0)
    anywhere = [export.DisabledSafetyCheck.platform()]
    away = reread(export.export(xpr.jit(jnp.sin), platforms=["tpu"], disabled_checks=anywhere)(1.0))
    same(away.call(1.0), jnp.sin(1.0))
    with pytest.raises(ValueError, match="Platforms are a sequence of different names"):
        export.export(xpr.jit(jnp.sin), platforms="cpu")


def test_programs_of_several_platforms_keep_what_each_needs():
    matrix = np.array([[4, 2], [2, 5]], np.float32)
    both = export.export(xpr.jit(jnp.linalg.cholesky), platforms=("cpu", "cuda"))(matrix)
    assert "lapack_spotrf_ffi" in both.mlir_module() and "cusolver_potrf_ffi" in both.mlir_module()
    same(reread(both).call(matrix), jnp.linalg.cholesky(matrix))


def test_disabled_checks_are_values():
    with pytest.raises(TypeError, match="disabled_checks has DisabledSafetyChecks, .* and is .'platform'"):
        export.export(xpr.jit(jnp.sin), disabled_checks=["platform"])
    check = export.DisabledSafetyCheck
    assert check.custom_call("f") == check.custom_call("f") != check.platform()
    assert (check.custom_call("f").is_custom_call(), check.platform().is_custom_call()) == ("f", None)
    assert repr(check.platform()) == "platform" and len({check.platform(), check.platform()}) == 1


def test_what_can_not_be_exported():
    with pytest.raises(ValueError, match="Function to be exported must be the result of `jit`, and it is <function"):
        export.export(lambda x: x)
    with pytest.raises(NotImplementedError, match="<lambda> calls Python functions"):
        export.export(xpr.jit(lambda x: xpr.debug.print("{}", x)))(1.0)


def test_targets_that_may_change_are_refused():
    from xpr.export.exporting import _check_module

    class Module:
        callbacks = ()
        functions = ('"stablehlo.custom_call"() <{call_target_name = "my_kernel"}>',)

    with pytest.raises(ValueError, match=r'may change between releases: my_kernel. .*custom_call\("my_kernel"\)'):
        _check_module(Module, "f", ())
    _check_module(Module, "f", [export.DisabledSafetyCheck.custom_call("my_kernel")])


def test_wrong_arguments(exported):
    with pytest.raises(
        TreeMismatch,
        match=r"have the same pytree structure, that for which layer was exported:\n.*\['k'\]   expected a leaf",
    ):
        exported.call({"w": W}, X)
    with pytest.raises(ValueError, match=r"args\[1\] +exported with f32\[2,4\] +called with f32\[4,2\]"):
        exported.call({"w": W}, X.T, k=1.0)
    with pytest.raises(ValueError, match=r"kwargs\['k'\] +exported with f32\[\] +called with i32\[\]"):
        exported.call({"w": W}, X, k=1)


def test_shardings_over_one_device():
    sharding = xpr.NamedSharding(xpr.make_mesh((1,), ("i",)), xpr.P("i"))
    exported = export.export(xpr.jit(lambda x: x + 1, in_shardings=sharding))(jnp.ones(2))
    assert exported.nr_devices == 1 and exported.in_shardings_jax(sharding.mesh) == (sharding,)
    assert export.deserialize(exported.serialize()).call(np.ones(2, np.float32)).tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"shardings over AbstractMesh\('i': 1\), and .*'j'.* other axes"):
        exported.in_shardings_jax(xpr.make_mesh((1,), ("j",)))


def test_calls_on_keys_are_well_typed():
    keys = xpr.random.split(xpr.random.key(1))
    split = export.export(xpr.jit(xpr.random.split))(keys[0])
    make = export.export(xpr.jit(xpr.random.key))(np.int32(0))
    with xpr.enable_checks(True):
        assert (xpr.random.key_data(split.call(keys[0])) == xpr.random.key_data(xpr.random.split(keys[0]))).all()
        assert (xpr.jit(make.call)(np.int32(1)) == xpr.random.key(1)).all()


# -- Bytes


def test_flatbuffers():
    point = flatbuffers.Table(x="int16", name="string", big="uint32", flag="bool")
    shape = flatbuffers.Table(points=flatbuffers.Vector(point), data=flatbuffers.Vector("int8"), n="uint16")
    value = {"points": [{"x": -3, "name": "é"}, {}, {"big": 2**32 - 1, "flag": True}], "data": b"\0\xff", "n": 7}
    data = bytes(flatbuffers.write(shape, value))
    assert flatbuffers.read(shape, data) == value
    for length in range(len(data) - 8):
        try:
            flatbuffers.read(shape, data[:length])
        except flatbuffers.CorruptBytes:
            pass


@pytest.mark.parametrize(
    "change", [{"in_avals_idxs": [99]}, {"unique_avals": []}, {"calling_convention_version": None}, {"platforms": None}]
)
def test_bytes_with_fields_that_do_not_fit_each_other_are_refused(exported, change):
    table = flatbuffers.read(schema.Exported, bytes(exported.serialize()))
    with pytest.raises(flatbuffers.CorruptBytes, match="are damaged|hold no exported function: they have no platforms"):
        export.deserialize(bytes(flatbuffers.write(schema.Exported, {**table, **change})))


def test_damaged_bytes_are_refused(exported):
    with pytest.raises(ValueError, match="damaged, or no flatbuffer"):
        export.deserialize(b"")
    with pytest.raises(ValueError, match="hold no exported function|damaged"):
        export.deserialize(bytes(flatbuffers.write(schema.PyTreeDef, {"kind": 2})))
    table = flatbuffers.read(schema.Exported, bytes(exported.serialize()))
    for change, message in [
        ({"ordered_effects": [{"type_name": "<class 'Ring'>"}]}, "effects that xpr does not have: <class 'Ring'>"),
        ({"unique_avals": [{"shape": [], "dtype": 99}] * 9}, "a dtype that xpr does not have: number 99"),
    ]:
        with pytest.raises(NotImplementedError, match=message):
            export.deserialize(flatbuffers.write(schema.Exported, {**table, **change}))


Point = namedtuple("Point", "x y")


@xpr.tree_util.register_pytree_node_class
@dataclass
class Scaled:
    value: object
    unit: str

    def tree_flatten(self):
        return (self.value,), self.unit

    @classmethod
    def tree_unflatten(cls, unit, children):
        return cls(*children, unit)


def as_table(tree):
    treedef = xpr.tree.structure(tree)
    return tree_as_table(treedef, [core.ShapedArray((), np.float32)] * treedef.num_leaves)


@pytest.mark.parametrize(
    "tree", [1, None, (), [1, (2,)], {"b": 1, "a": [None, 2]}, OrderedDict(z=1, a=2), {}, {"k": ()}]
)
def test_trees_are_read_back(tree):
    treedef = xpr.tree.structure(tree)
    table = flatbuffers.read(schema.PyTreeDef, bytes(flatbuffers.write(schema.PyTreeDef, as_table(tree))))
    assert tree_of_table(table, [0] * treedef.num_leaves) == treedef


def test_classes_in_trees_are_registered():
    fun = xpr.jit(lambda p, s: Point(Scaled(p.x * s.value, s.unit), p.y))
    args = Point(1.0, 2.0), Scaled(jnp.ones(2), "m")
    exported = export.export(fun)(*args)
    with pytest.raises(ValueError, match="Cannot serialize nodes of unregistered type .*Point'>. Call"):
        exported.serialize()
    export.register_namedtuple_serialization(Point, serialized_name="tests.Point")
    export.register_pytree_node_serialization(
        Scaled, serialized_name="tests.Scaled", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode
    )
    found = reread(exported).call(*args)
    assert type(found) is Point and type(found.x) is Scaled and found.x.unit == "m"
    table = as_table(args[0])
    with pytest.raises(ValueError, match="a class named 'tests.Other', which is not registered here"):
        tree_of_table({**table, "custom_name": "tests.Other"}, [1, 2])


def test_registering_twice_and_wrongly():
    Unknown = type("Unknown", (), {})
    codec = {"serialize_auxdata": lambda _: b"", "deserialize_auxdata": lambda _: None}
    with pytest.raises(ValueError, match="If `from_children` is not present, .* you must call tree_util.register"):
        export.register_pytree_node_serialization(Unknown, serialized_name="tests.Unknown", **codec)
    with pytest.raises(ValueError, match="Duplicate serialization registration for type .*OrderedDict'>, .* as 'coll"):
        export.register_pytree_node_serialization(OrderedDict, serialized_name="mine", **codec)
    with pytest.raises(ValueError, match="Duplicate .* for serialized_name 'collections.OrderedDict', that of <class"):
        export.register_pytree_node_serialization(Unknown, serialized_name="collections.OrderedDict", **codec)
    with pytest.raises(ValueError, match="for a class of namedtuples, export.register_namedtuple_serialization"):
        export.register_pytree_node_serialization(namedtuple("Two", "a b"), serialized_name="tests.Two", **codec)
    with pytest.raises(ValueError, match="is no namedtuple"):
        export.register_namedtuple_serialization(dict, serialized_name="tests.dict")
    with pytest.raises(TypeError, match="dictionaries with string keys, and 1 of type builtins.int is a key"):
        as_table({1: 2})
    with pytest.raises(TypeError, match="only for dictionaries with string keys, and an OrderedDict has"):
        as_table(OrderedDict({1: 2}))
    Wrong = namedtuple("Wrong", "x")
    export.register_pytree_node_serialization(
        Wrong, serialized_name="tests.Wrong", serialize_auxdata=lambda _: 3, deserialize_auxdata=lambda _: None,
        from_children=lambda _, children: Wrong(*children),
    )  # fmt: skip
    with pytest.raises(ValueError, match="must return bytes, and returned 3"):
        as_table(Wrong(1))


# -- With JAX


def both_ways(fun, *args, vjp_order=0, platforms=None, **kwargs):
    """A function, exported by each library and read by the other: what JAX reads, and what xpr reads."""
    ours = export.export(xpr.jit(fun(xpr)), platforms=platforms)(*args, **kwargs).serialize(vjp_order)
    theirs = JAX.export.export(JAX.jit(fun(JAX)), platforms=platforms)(*args, **kwargs).serialize(vjp_order)
    return JAX.export.deserialize(ours), export.deserialize(theirs)


@exchanges
@pytest.mark.parametrize("platforms", [None, ("tpu", "cpu")])
def test_files_are_exchanged_with_jax(platforms):
    def fun(lib):
        np = lib.numpy
        return lambda p, x, *, k: {"y": np.sin(x) @ p["w"] * k, "n": (np.arange(3), None, [np.cumsum(x, 1)])}

    there, here = both_ways(fun, {"w": W}, X, k=2.0, vjp_order=2, platforms=platforms)
    want = xpr.tree.map(np.asarray, fun(xpr)({"w": W}, X, k=2.0))
    for read in (there, here):
        found = read.call({"w": W}, X, k=2.0)
        same(xpr.tree.map(np.asarray, found), want)
    assert there.platforms == here.platforms == (platforms or ("cpu",))
    gradients = [
        lib.grad(lambda x: (read.call({"w": W}, x, k=2.0)["y"] ** 2).sum())(X)  # noqa: B023
        for lib, read in ((JAX, there), (xpr, here))
    ]
    np.testing.assert_allclose(*gradients, rtol=1e-5)


@exchanges
def test_keys_and_factorizations_are_exchanged_with_jax():
    there, here = both_ways(lambda lib: lambda m: tuple(lib.numpy.linalg.eigh(m)), np.eye(3, dtype=np.float32))
    for read in (there, here):
        np.testing.assert_allclose(read.call(np.diag(np.float32([3, 1, 2])))[0], [1, 2, 3], rtol=1e-6)
    ours = export.export(xpr.jit(lambda key: xpr.random.normal(key, (3,))))(xpr.random.key(0))
    theirs = JAX.export.export(JAX.jit(lambda key: JAX.random.normal(key, (3,))))(JAX.random.key(0))
    want = xpr.random.normal(xpr.random.key(5), (3,))
    np.testing.assert_allclose(JAX.export.deserialize(ours.serialize()).call(JAX.random.key(5)), want, rtol=1e-6)
    np.testing.assert_allclose(export.deserialize(theirs.serialize()).call(xpr.random.key(5)), want, rtol=1e-6)


# -- Compiled programs as files

RUN = """
import sys, xpr, xpr.numpy as jnp
program = xpr.load_compiled(sys.argv[1])
print(float(program({"w": jnp.ones((3, 3))}, k=4.0)["y"].sum()))
"""


def test_a_compiled_program_runs_in_another_process(tmp_path):
    table = np.arange(9, dtype=np.float32).reshape(3, 3)

    def fun(params, *, k):
        looped = xpr.lax.fori_loop(0, 3, lambda _, x: 2 * x, params["w"])
        return {"y": jnp.linalg.cholesky(jnp.eye(3) * k) + looped + table, "n": jnp.where(table > 1, 1, 0)}

    args = {"w": jnp.ones((3, 3))}
    compiled = xpr.jit(fun).lower(args, k=4.0).compile()
    compiled.save(tmp_path / "program")
    again = xpr.load_compiled(tmp_path / "program")
    same(again(args, k=4.0), compiled(args, k=4.0))
    assert again.in_tree == compiled.in_tree and again.in_avals == compiled.in_avals
    assert again.out_info == compiled.out_info
    with pytest.raises(TypeError, match=r"'params\['w'\]' compiled with float32\[3,3\] and called with float32\[3\]"):
        again({"w": jnp.ones(3)}, k=4.0)
    command = [sys.executable, "-c", RUN, str(tmp_path / "program")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(printed) == float(compiled(args, k=4.0)["y"].sum())


def test_programs_of_other_circumstances_and_damaged_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "program"
    xpr.jit(lambda x: x + 1).lower(1.0).compile().save(path)
    from xpr.artifacts import compiled_programs

    here = compiled_programs.circumstances(xpr.devices()[0])
    there = [*here]
    there[0], there[5] = "0.9.0", "model name : Abacus\nflags : beads"
    monkeypatch.setattr(compiled_programs, "circumstances", lambda device: there)
    message = "(?s)holds a program that can't run here:\n  jaxlib: compiled for .*, and here it is 0.9.0\n  processor: "
    with pytest.raises(ValueError, match=message + ".*it is Abacus.*see xpr.export"):
        xpr.load_compiled(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is damaged, or no compiled program"):
        xpr.load_compiled(path)


def test_what_can_not_be_saved(tmp_path):
    printing = xpr.jit(lambda x: xpr.debug.print("{}", x)).lower(1.0).compile()
    with pytest.raises(NotImplementedError, match="can't be saved: it is in steps, on several devices, or calls"):
        printing.save(tmp_path / "program")


def test_texts_have_the_names_of_arguments_and_results_and_the_lines_of_the_user():
    text = export.export(xpr.jit(lambda x, *, k: {"a": jnp.sin(x) * k}))(X, k=2.0).mlir_module()
    assert 'loc("args[0]")' in text and """loc("kwargs['k']")""" in text
    assert """{jax.result_info = "result['a']"}""" in text and re.search(r'loc\(".*test_export.py":\d+:0\)', text)
    read = export.deserialize(export.export(xpr.jit(jnp.sin))(1.0).serialize())
    assert 'jax.result_info = "result"' in export.export(xpr.jit(read.call))(1.0).mlir_module()


def test_the_version_of_the_calling_convention():
    for version in (9, 10):
        with override("export_calling_convention_version", version):
            exported = reread(export.export(xpr.jit(jnp.sin))(X))
        assert exported.calling_convention_version == version
        same(exported.call(X), jnp.sin(X))
    for version in (8, 11):
        message = f"calling convention version {version} was asked for, and those from 9 to 10 are supported"
        with override("export_calling_convention_version", version), pytest.raises(ValueError, match=message):
            export.export(xpr.jit(jnp.sin))(X)


def test_the_axis_in_which_a_shape_differs():
    exported = export.export(xpr.jit(jnp.sin))(jnp.ones((2, 3)))
    message = r"sin: called with other types .* Shape mismatch for args\[0\].shape\[1\] \(expected same constant\):\n"
    with pytest.raises(ValueError, match=message):
        exported.call(jnp.ones((2, 4)))


def test_serialized_executables_need_no_registered_classes():
    class Box:
        def __init__(self, content):
            self.content = content

    xpr.tree_util.register_pytree_node(Box, lambda box: ([box.content], None), lambda _, content: Box(*content))
    compiled = xpr.jit(lambda x, *, k: Box(jnp.sin(x) * k)).lower(X, k=2.0).compile()
    data, in_tree, out_tree = serialize(compiled)
    assert type(data) is bytes and (in_tree, out_tree) == (compiled.in_tree, compiled.out_tree)
    for where in ({}, {"backend": "cpu"}, {"execution_devices": xpr.devices()[:1]}):
        same(deserialize_and_load(data, in_tree, out_tree, **where)(X, k=3.0).content, jnp.sin(X) * 3)
    with pytest.raises(ValueError, match="for one device, and execution_devices has 2"):
        deserialize_and_load(data, in_tree, out_tree, execution_devices=2 * xpr.devices()[:1])
    ref = xpr.new_ref(0.0)
    with pytest.raises(ValueError, match="can't serialize with a closed-over Ref"):
        serialize(xpr.jit(lambda x: x + ref[...]).lower(1.0).compile())


def test_the_function_that_takes_dimensions_has_jaxs_name():
    (h, w) = export.symbolic_shape("h, w")
    text = export.export(xpr.jit(lambda x: x.sum(0)))(xpr.ShapeDtypeStruct((w, h), np.float32)).mlir_module()
    start = text.index("@_wrapped_jax_export_main(")
    header = text[start : text.index("\n", start)]
    assert header.index('jax.global_constant = "h"') < header.index('jax.global_constant = "w"') < header.index("f32")
