"""Lowering of collectives to StableHLO: communication along the axes of a mesh, inside a manual region.

A group is a list of the devices that communicate with each other, by their numbers in the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.mlir_text import int_array, int_matrix
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.core.primitive import no_rule
from xpr.errors import UnsupportedRule
from xpr.primitives.ordering import ordered, restored

NEEDS_AN_AXIS = (
    "It communicates along a named axis, and nothing maps one here: "
    "call it inside a function mapped with vmap(..., axis_name=...), pmap or shard_map."
)

Groups = tuple[tuple[int, ...], ...] | None


def groups_along(b: Builder, what: str, names: Sequence[Any], index_groups: Groups = None) -> list[list[int]]:
    """The groups of devices along axes of a mesh, each in the order of its members.

    Raises:
      UnsupportedRule: no manual region around has the axes.
    """
    meshes = [b.module.manual.get(name) for name in names]
    mesh = meshes[0]
    if mesh is None or any(other is None or other.shape_tuple != mesh.shape_tuple for other in meshes):
        raise UnsupportedRule(f"{no_rule(what, 'lower')}. {NEEDS_AN_AXIS}")
    axes = [mesh.axis_names.index(name) for name in names]
    last = range(len(mesh.axis_names) - len(axes), len(mesh.axis_names))
    lines = np.moveaxis(b.module.numbers(mesh), axes, last)
    rows = lines.reshape(-1, int(np.prod([mesh.axis_sizes[axis] for axis in axes])))
    if index_groups is None:
        return rows.tolist()
    return [[row[i] for i in group] for row in rows.tolist() for group in index_groups]


def _group_properties(b: Builder, groups: Sequence[Sequence[int]]) -> str:
    """The properties that name the groups of devices; groups of different sizes are filled up with -1."""
    longest = max(map(len, groups))
    rows = [[*group, *[-1] * (longest - len(group))] for group in groups]
    return f"replica_groups = {int_matrix(rows, longest)}, {b.module.channel()}"


def _fold(b: Builder, aval: ShapedArray, operation: str) -> str:
    """The region of a collective that combines two elements by an operation."""
    scalar = aval.update(shape=())
    return b.region([scalar, scalar], lambda inner, xs: [inner.op(operation, xs, scalar)])


def lower_reduction(name: str, operation: str) -> Any:
    """The rule of a reduction that folds with an operation."""

    def lower(
        b: Builder, operands: Sequence[Value], avals: Sequence[ShapedArray], *, axes: Sequence[Any],
        axis_index_groups: Groups,
    ) -> list[Value]:  # fmt: skip
        groups = groups_along(b, name, axes, axis_index_groups)
        return [
            b.ops(
                "stablehlo.all_reduce", [x], [x.aval], f"{_group_properties(b, groups)}, use_global_device_ids",
                [_fold(b, x.aval, operation)],
            )[0]
            for x in operands
        ]  # fmt: skip

    return lower


def lower_sum_of_one(b: Builder, x: Value, axes: Sequence[Any]) -> Value:
    """The value of the one device along the axes that has no zeros; all its bits, also those of -0.0."""
    aval = x.aval
    if aval.dtype in dtypes.COMPLEX:
        part = aval.update(dtype=dtypes.real_part_of(aval.dtype))
        parts = [b.op(f"stablehlo.{name}", [x], part) for name in ("real", "imag")]
        return b.op("stablehlo.complex", [lower_sum_of_one(b, y, axes) for y in parts], aval)
    if aval.dtype in dtypes.FLOATS:
        bits = aval.update(dtype=np.dtype(f"uint{8 * aval.dtype.itemsize}"))
        summed = lower_sum_of_one(b, b.op("stablehlo.bitcast_convert", [x], bits), axes)
        return b.op("stablehlo.bitcast_convert", [summed], aval)
    operation = "stablehlo.or" if aval.dtype == dtypes.bool_ else "stablehlo.add"
    return lower_reduction("callback", operation)(b, [x], [aval], axes=axes, axis_index_groups=None)[0]


def lower_all_gather(
    b: Builder, operands: Sequence[Value], avals: Sequence[ShapedArray], *, all_gather_dimension: int,
    axis_name: Sequence[Any], axis_index_groups: Groups, tiled: bool, **_: Any,
) -> list[Value]:  # fmt: skip
    """Parts are joined along an axis; without `tiled` this is a new axis, along which each part has size 1."""
    (x,), at = operands, all_gather_dimension
    if not tiled:
        x = b.reshape(x, (*x.aval.shape[:at], 1, *x.aval.shape[at:]))
    properties = _group_properties(b, groups_along(b, "all_gather", axis_name, axis_index_groups))
    return b.ops(
        "stablehlo.all_gather", [x], avals, f"all_gather_dim = {at} : i64, {properties}, use_global_device_ids"
    )


def lower_reduce_scatter(
    b: Builder, operands: Sequence[Value], avals: Sequence[ShapedArray], *, scatter_dimension: int,
    axis_name: Sequence[Any], axis_index_groups: Groups, tiled: bool, **_: Any,
) -> list[Value]:  # fmt: skip
    """Each device keeps one block of the axis. Without `tiled` the block has size 1, and the axis is dropped."""
    (x,), (aval,), at = operands, avals, scatter_dimension
    part = aval if tiled else aval.update(shape=(*aval.shape[:at], 1, *aval.shape[at:]))
    properties = _group_properties(b, groups_along(b, "psum_scatter", axis_name, axis_index_groups))
    out = b.ops(
        "stablehlo.reduce_scatter", [x], [part],
        f"scatter_dimension = {at} : i64, {properties}, use_global_device_ids", [_fold(b, x.aval, "stablehlo.add")],
    )[0]  # fmt: skip
    return [out if tiled else b.reshape(out, aval.shape)]


def lower_all_to_all(
    b: Builder, operands: Sequence[Value], avals: Sequence[ShapedArray], *, split_axis: int, concat_axis: int,
    axis_name: Sequence[Any], axis_index_groups: Groups, **_: Any,
) -> list[Value]:  # fmt: skip
    """Element i of an axis goes to the device i of a group, and is replaced by what arrives; then the axis is moved."""
    (x,) = operands
    groups = groups_along(b, "all_to_all", axis_name, axis_index_groups)
    out = b.ops(
        "stablehlo.all_to_all", [x], [x.aval],
        f"split_dimension = {split_axis} : i64, concat_dimension = {split_axis} : i64, "
        f"split_count = {len(groups[0])} : i64, {_group_properties(b, groups)}",
    )[0]  # fmt: skip
    order = [i for i in range(x.aval.ndim) if i != split_axis]
    order.insert(concat_axis, split_axis)
    return [b.transpose(out, order) if order != sorted(order) else out]


def lower_ppermute(
    b: Builder, operands: Sequence[Value], avals: Sequence[ShapedArray], *, axis_name: Sequence[Any],
    perm: Sequence[tuple[int, int]],
) -> list[Value]:  # fmt: skip
    """The pairs along every line of the mesh; devices that receive nothing have zeros."""
    lines = groups_along(b, "ppermute", axis_name)
    pairs = [(line[source], line[target]) for line in lines for source, target in perm]
    return b.ops(
        "stablehlo.collective_permute", operands, avals,
        f"source_target_pairs = {int_matrix(pairs)}, {b.module.channel()}",
    )  # fmt: skip


def lower_axis_index(
    b: Builder, operands: Sequence[Value], avals: Sequence[ShapedArray], *, axis_name: Any, checked: bool = True
) -> list[Value]:
    """A table of each device's index along the axis, read at the device's number."""
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    lines = groups_along(b, "axis_index", names)
    table = np.zeros(sum(map(len, lines)), np.int32)
    for line in lines:
        table[line] = range(len(line))

    def read(inner: Builder, _: list[Value]) -> list[Value]:
        number = inner.convert(inner.op("stablehlo.partition_id", (), ShapedArray((), dtypes.uint32)), dtypes.int32)
        indices = inner.constant(table, ShapedArray(table.shape, dtypes.int32))
        slice_sizes = f"slice_sizes = {int_array((1,))}"
        index = inner.op("stablehlo.dynamic_slice", (indices, number), ShapedArray((1,), dtypes.int32), slice_sizes)
        return [inner.reshape(index, ())]

    mesh = b.module.manual[names[0]]
    automatic = [name for name in mesh.axis_names if name not in b.module.manual]
    # A device has a number only in a region that is manual along all axes.
    return b.manual_region(mesh, automatic, [], [], avals, [()], read) if automatic else read(b, [])


def lower_extreme(name: str, of_numbers: str, of_booleans: str) -> Any:
    """The rule of a maximum or minimum; booleans have another operation.

    XLA:CPU ignores nan when it combines the values of devices. So it gets integers in the order of the numbers, of
    which nan is the last; a minimum is the maximum of the negated numbers, so that nan is last there, too.
    """
    numbers, booleans = lower_reduction(name, of_numbers), lower_reduction(name, of_booleans)
    greatest = lower_reduction(name, "stablehlo.maximum")
    is_minimum = of_numbers == "stablehlo.minimum"

    def negated(b: Builder, x: Value) -> Value:
        return b.op("stablehlo.negate", [x], x.aval) if is_minimum else x

    def lower(b: Builder, operands: Sequence[Value], avals: Sequence[ShapedArray], **params: Any) -> list[Value]:
        results = []
        for x, aval in zip(operands, avals):
            if b.platform == "cpu" and x.aval.dtype in dtypes.FLOATS:
                key = ordered(b, negated(b, x), merge_zeros=False)
                (key,) = greatest(b, [key], [key.aval], **params)
                results.append(negated(b, restored(b, key, aval)))
            else:
                rule = booleans if x.aval.dtype == dtypes.bool_ else numbers
                results += rule(b, [x], [aval], **params)
        return results

    return lower
