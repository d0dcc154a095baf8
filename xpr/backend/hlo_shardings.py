"""Shardings as XLA writes them (HloSharding), to and from those over meshes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.backend import runtime
from xpr.backend.devices import memory_kind_on
from xpr.backend.mesh import AbstractMesh, Mesh
from xpr.backend.sharding import NamedSharding
from xpr.core.avals import ShapedArray
from xpr.core.memory import space_of_kind
from xpr.core.specs import PartitionSpec, axes_of, normalized


@functools.lru_cache(4096)
def raw_sharding(sharding: NamedSharding, ndim: int) -> Any:
    """A sharding as jaxlib takes it, for arrays with `ndim` axes."""
    devices = runtime._jax.DeviceList(sharding.devices)
    memory_kind = memory_kind_on(sharding.devices[0], space_of_kind(sharding.memory_kind))
    return runtime._jax.GSPMDSharding(devices, hlo_sharding(sharding, ndim), memory_kind=memory_kind)


def hlo_sharding(sharding: NamedSharding, ndim: int) -> Any:
    """A sharding as HLO writes it, by the numbers of devices, for arrays with `ndim` axes."""
    hlo = runtime.xc.HloSharding
    counts, mesh = sharding.shard_counts(ndim), sharding.mesh
    unreduced = [i for i, name in enumerate(mesh.axis_names) if name in sharding.spec.unreduced]
    if math.prod(counts) == 1 and not unreduced:
        return hlo.replicate()
    order = [mesh.axis_names.index(name) for part in sharding.spec for name in axes_of(part)] + unreduced
    order += [i for i in range(len(mesh.axis_sizes)) if i not in order]
    sums = math.prod([mesh.axis_sizes[i] for i in unreduced])
    replicas = mesh.size // math.prod(counts) // sums
    tiles = [*counts, *[sums] * bool(unreduced), *[replicas] * (replicas > 1)]
    last = " last_tile_dim_replicate" if replicas > 1 else ""
    if unreduced:
        last = f" last_tile_dims={{unreduced{', replicated' if replicas > 1 else ''}}}"
    grid = f"[{','.join(map(str, mesh.axis_sizes))}]T({','.join(map(str, order))})"
    if order == sorted(order):
        grid = f"[{mesh.size}]"
    return hlo.from_string(f"{{devices=[{','.join(map(str, tiles))}]<={grid}{last}}}")


def sharding_from_proto(proto: Any, mesh: Mesh, ndim: int) -> NamedSharding:
    """`sharding_from_hlo` of its serialized form."""
    return sharding_from_hlo(runtime.xc.HloSharding.from_proto(proto), mesh, ndim)


def sharding_from_hlo(hlo: Any, mesh: Mesh, ndim: int) -> NamedSharding:
    """The sharding that a compiler chose for an array with `ndim` axes, by a mesh's axes or factors of them."""
    spec = spec_from_hlo(hlo, mesh, ndim)
    if spec is None:
        mesh = _in_prime_factors(mesh)
        spec = spec_from_hlo(hlo, mesh, ndim)
    if spec is None:
        raise ValueError(f"The compiler chose a layout that the axes of {mesh.text} can't express: {hlo}.")
    return NamedSharding(mesh, spec)


def spec_from_hlo(hlo: Any, mesh: Mesh, ndim: int) -> PartitionSpec | None:
    """The sharding that a compiler chose, as a spec by a mesh's axes; None where these can't express it."""
    if hlo.is_replicated() or not hlo.is_tiled():
        return PartitionSpec()
    tiles = np.empty((mesh.size, ndim), int)
    dimensions = hlo.tile_assignment_dimensions()
    order = np.argsort(hlo.tile_assignment_devices())
    tiles[:] = np.stack(np.unravel_index(order, dimensions), 1)[:, :ndim]
    return _spec_of(tiles, dimensions[:ndim], mesh)


def _spec_of(tiles: np.ndarray, counts: Sequence[int], mesh: Mesh) -> PartitionSpec | None:
    """The spec by which each device has these numbers of its parts; None where there is no such spec."""
    coordinates = dict(zip(mesh.axis_names, np.indices(mesh.axis_sizes).reshape(len(mesh.axis_sizes), -1)))
    parts: list[Any] = []
    for axis, count in enumerate(counts):
        stride, part_of_device = 1, tiles[:, axis]
        names: list[Any] = []
        while stride < count:  # from the axis that runs fastest
            name = _runs_at(part_of_device // stride, coordinates, mesh, names)
            if name is None:
                return None
            names.insert(0, name)
            stride *= mesh.shape[name]
        parts.append(None if not names else names[0] if len(names) == 1 else tuple(names))
    while parts and parts[-1] is None:
        parts.pop()
    return PartitionSpec(*parts)


def _runs_at(numbers: np.ndarray, coordinates: dict[Any, np.ndarray], mesh: Mesh, used: Sequence[Any]) -> Any:
    for name, size in mesh.shape.items():
        if size > 1 and name not in used and (numbers % size == coordinates[name]).all():
            return name
    return None


def _in_prime_factors(mesh: Mesh) -> Mesh:
    """The same devices on a grid with axes of prime sizes: `x` of size 4 becomes `x:0` and `x:1` of size 2."""
    names: list[Any] = []
    sizes: list[int] = []
    for name, size in mesh.shape.items():
        factors = []
        while size > 1:
            factor = next(f for f in range(2, size + 1) if size % f == 0)
            factors.append(factor)
            size //= factor
        names += [f"{name}:{i}" for i in range(len(factors))]
        sizes += factors
    return Mesh(mesh.devices.reshape(sizes), names)


NamedSharding._to_xla_hlo_sharding = hlo_sharding  # type: ignore[assignment, method-assign]


def as_type_says(sharding: NamedSharding, aval: ShapedArray) -> NamedSharding:
    """The sharding that a compiled program reports of a result, with those axes of size 1 that its type names.

    Over Explicit axes it has an element for each axis of the array, if it is sharded as its type says and no further.
    One that its type has on another mesh of Auto axes is over the same devices along the axes of that one.
    """
    if aval.mesh is not None and aval.mesh.size == sharding.mesh.size and aval.mesh != sharding.mesh.abstract_mesh:
        return _over_axes(sharding, aval.mesh, aval.ndim)
    mesh, explicit = sharding.mesh, aval.explicit
    parts = [*sharding.spec, *[None] * (aval.ndim - len(sharding.spec))]
    own: Sequence[Any] = [None] * aval.ndim
    if explicit is not None and explicit.parts is not None and explicit.mesh.shape_tuple == mesh.shape_tuple:
        own = explicit.parts
        used = [name for part in parts for name in axes_of(part)]
        named = [
            (*[name for name in axes_of(of_type) if mesh.shape[name] == 1 and name not in used], *axes_of(part))
            for of_type, part in zip(own, parts)
        ]
        if list(map(axes_of, parts)) != named:
            parts = list(map(normalized, named))
            sharding = sharding.with_spec(parts)
    return sharding.with_spec(parts) if mesh.has_explicit and list(own) == parts else sharding


def _over_axes(sharding: NamedSharding, axes: AbstractMesh, ndim: int) -> NamedSharding:
    """The sharding over the same devices along other axes; itself where these can't express it."""
    mesh = sharding.mesh.along(axes)
    spec = spec_from_hlo(hlo_sharding(sharding, ndim), mesh, ndim)
    return sharding if spec is None else NamedSharding(mesh, spec)
