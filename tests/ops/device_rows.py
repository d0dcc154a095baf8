"""Rows of what runs on several devices; here each has one row, so that one device will do."""

from tests.ops.control_rows import jaxpr_of, two_results
from tests.ops.table import FromTypes, Row, Sample, complexes, floats, integers
from xpr.api.meshes import make_mesh
from xpr.backend.sharding import NamedSharding
from xpr.backend.sharding import PartitionSpec as P
from xpr.control.custom.replicated_cotangents import of_copies_p
from xpr.control.devices.custom_partitioning import custom_partitioning_p
from xpr.control.devices.inspect_sharding import inspect_sharding_p
from xpr.control.devices.shard_map import ManualMesh, shard_map_p
from xpr.control.devices.xla_pmap import pmap_params, xla_pmap_p
from xpr.core.avals import aval_of
from xpr.core.memory import MemorySpace
from xpr.primitives.collectives.reduce import pcast_p, psum_p
from xpr.primitives.device_put import device_put_p
from xpr.primitives.elementwise import div, mul, neg, sin
from xpr.primitives.sharding_constraint import reshard_p, sharding_constraint_p
from xpr.transforms.batch import row_aval


def rows_of(fun, in_axes):
    """The jaxpr of a function of rows."""

    def make(*avals):
        rows = [a if axis is None else row_aval(a, axis) for a, axis in zip(avals, in_axes)]
        return jaxpr_of(fun).make(*rows)

    return FromTypes(make)


def mapped(fun, *operands, in_axes, out_axes):
    blank = jaxpr_of(fun).make(
        *[aval_of(x) if d is None else row_aval(aval_of(x), d) for x, d in zip(operands, in_axes)]
    )
    params = pmap_params(blank, in_axes, out_axes, axis_name="rows", axis_size=1, name="f", backend=None, devices=None)
    return Sample(*operands, **{**params, "call_jaxpr": rows_of(fun, in_axes)})


def normalized(x):
    return [div(sin(x), psum_p.bind(mul(x, x), axes=("rows",), axis_index_groups=None)[0])]


def sums(x, y):
    return psum_p.bind(x, y, axes=("rows",), axis_index_groups=None)


def nothing(sharding):
    pass


def sharded(x):
    return Sample(x, sharding=NamedSharding(make_mesh((1,), ("x",)), P("x")))


def shared(fun, *operands, in_specs, out_specs):
    """On a mesh of one device, whose part is the whole."""
    manual = ManualMesh(make_mesh((1, 1), ("rows", "columns")), ("rows", "columns"), False)
    params = dict(
        mesh=manual.mesh, manual_axes=manual.axes, check_vma=manual.check,
        in_specs=tuple(map(tuple, in_specs)), out_specs=tuple(map(tuple, out_specs)),
    )  # fmt: skip
    return Sample(*operands, jaxpr=jaxpr_of(fun), **params)


R, C, RC, N = P("rows"), P(None, "columns"), P(("rows", "columns")), P()

ROWS = [
    Row(xla_pmap_p, [mapped(two_results, floats(1, 3), floats(1, 3, salt=1), in_axes=(0, 0), out_axes=(1, 0)),
                     mapped(two_results, floats(3, 1), floats(3, salt=1), in_axes=(1, None), out_axes=(1, 0)),
                     mapped(normalized, floats(1, 3, low=0.5), in_axes=(0,), out_axes=(0,)),
                     mapped(sums, floats(1, 3), floats(1, salt=1), in_axes=(0, None), out_axes=(None, 0)),
                     mapped(lambda x: [neg(x)], complexes(2, 1), in_axes=(1,), out_axes=(0,)),
                     mapped(lambda x: [neg(x)], integers(1, 2), in_axes=(0,), out_axes=(1,))],
        skip={"transpose": "sometimes it is of a function that is not linear"}),
    Row(shard_map_p, [shared(two_results, floats(2, 3), floats(2, 3, salt=1), in_specs=(R, C), out_specs=(C, N)),
                      shared(normalized, floats(2, 3, low=0.5), in_specs=(RC,), out_specs=(RC,)),
                      shared(sums, floats(2, 3), floats(2, salt=1), in_specs=(N, RC), out_specs=(N, R)),
                      shared(lambda x: [neg(x)], complexes(2, 1), in_specs=(C,), out_specs=(R,)),
                      shared(lambda x: [neg(x)], integers(1, 2), in_specs=(R,), out_specs=(N,))],
        skip={"transpose": "sometimes it is of a function that is not linear"}),
    Row(device_put_p, [Sample(floats(3, 2), device=MemorySpace.Host), Sample(integers(3), device=MemorySpace.Device),
                       Sample(floats(2, 2), device=MemorySpace.Device)]),
    Row(pcast_p, [Sample(floats(3, 2), axes=(), to="reduced"), Sample(integers(2), axes=(), to="unreduced")]),
    Row(reshard_p, [sharded(floats(3, 2)), sharded(integers(3))]),
    Row(sharding_constraint_p, [sharded(floats(3, 2)), sharded(complexes(2)), sharded(integers(3))]),
    Row(of_copies_p, [Sample(floats(3), floats(2), what=what, over=()) for what in ("share", "sum")]),
    Row(custom_partitioning_p,
        [Sample(floats(2, 3), floats(2, 3, salt=1), call_jaxpr=jaxpr_of(two_results), num_consts=0,
                partitioning=nothing, name="two_results")],
        skip={"transpose": "it is of a function that is not linear"}),
    Row(inspect_sharding_p, [Sample(floats(3, 2), callback=nothing)], differentiable=False),
]  # fmt: skip
