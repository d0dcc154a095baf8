"""with_sharding_constraint: arrays with given shardings over devices; and shardings of the leaves of trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend.array import Array
from xpr.backend.layout import Format, Layout
from xpr.backend.sharding import NamedSharding, PartitionSpec, Sharding
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.specs import axes_of, normalized
from xpr.primitives.layout_constraint import with_layout_constraint
from xpr.primitives.sharding_constraint import constrain, refuse_manual, reshard_p, sharding_of
from xpr.primitives.sharding_rules import parts_of

__all__ = ["with_sharding_constraint"]


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The arrays of a pytree, constrained to have given shardings, also in the middle of a jitted function.

    Args:
      x: a pytree of arrays.
      shardings: a `NamedSharding`, or a pytree prefix of `x` of those and None, which leaves an array as it is. A
        `SingleDeviceSharding` puts the whole array on a device. A `Format` with a `Layout` says the order of its
        elements in memory, too, see `with_layout_constraint`. Inside `set_mesh(mesh)` a `PartitionSpec` will do. One
        that names Auto axes alone leaves arrays partitioned over Explicit axes, as their types say. An axis that is
        `P.UNCONSTRAINED` is left to the compiler, or as it is.

    Returns:
      A pytree like `x`.

    Raises:
      TypeError: `shardings` has something else, or a spec while no mesh is current.
      ValueError: an axis of an array can't be split into equal shards; the message names the array and the spec. Inside
        of jitted functions the compiler partitions such an axis along the first of the axes of an Auto mesh that do.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> xpr.jit(lambda x: xpr.lax.with_sharding_constraint(2 * x, rows))(jnp.arange(4))
    Array([0, 2, 4, 6], dtype=int32)
    """
    return _constrained("with_sharding_constraint", x, shardings, _beside_types, constrain)


def _constrained(
    function: str, x: Any, shardings: Any, of_aval: Callable[[NamedSharding, ShapedArray], NamedSharding],
    bind: Callable[[Any, NamedSharding], Any],
) -> Any:  # fmt: skip
    """The leaves of `x`, each with `bind` for its sharding, which `of_aval` says of the one that is asked for."""
    paths, structure = tree.flatten_with_path(x)
    requested = flatten_shardings(function, shardings, structure)
    layouts = tree.flatten_prefix(layouts_of(shardings), structure, "shardings", lambda x: x is None)
    outs = []
    for (path, leaf), sharding, layout in zip(paths, requested, layouts):
        if sharding is not None:
            sharding = of_aval(_where_constrained(sharding, aval_of(leaf)), aval_of(leaf))
            if isinstance(leaf, Tracer) and sharding.mesh.are_all_axes_auto:
                refuse_manual(sharding)
                sharding = _even(sharding, leaf.aval.shape)
            sharding.check(np.shape(leaf), function, f"x{tree.keystr(path)}")
            leaf = bind(leaf, sharding)
        outs.append(with_layout_constraint(leaf, layout) if isinstance(layout, Layout) else leaf)
    return tree.unflatten(structure, outs)


def _where_constrained(sharding: NamedSharding, aval: ShapedArray) -> NamedSharding:
    """The sharding, with the parts of the type for axes that are partitioned and left to the compiler."""
    own = parts_of(aval)
    if PartitionSpec.UNCONSTRAINED not in sharding.spec or not any(own):
        return sharding
    parts = [mine if mine and part is PartitionSpec.UNCONSTRAINED else part for part, mine in zip(sharding.spec, own)]
    return sharding.with_spec(sharding.spec.update(parts))


def _beside_types(sharding: NamedSharding, aval: ShapedArray) -> NamedSharding:
    """The sharding; where it names Auto axes alone, of what is partitioned over Explicit ones, over both."""
    mesh, own = sharding.mesh, parts_of(aval)
    named = {name for part in sharding.spec for name in axes_of(part)}
    if not mesh.has_explicit or not named or not named.isdisjoint(mesh.explicit_axes) or not any(own):
        return sharding
    parts = [*sharding.spec, *[None] * (aval.ndim - len(sharding.spec))]
    both = [part if not of_type else (*axes_of(of_type), *axes_of(part)) for of_type, part in zip(own, parts)]
    return sharding.with_spec(sharding.spec.update(list(map(normalized, both))))


def _even(sharding: NamedSharding, shape: Sequence[Any]) -> NamedSharding:
    """The sharding with those axes of the mesh, from the first, that split each axis of an array into equal shards."""
    counts = sharding.shard_counts(len(shape))
    if all(n % count == 0 for n, count in zip(shape, counts)) or len(sharding.spec) > len(shape):
        return sharding
    parts: list[Any] = []
    for n, part in zip(shape, sharding.spec):
        names = axes_of(part)
        while n % math.prod([sharding.mesh.shape[name] for name in names]):
            names = names[:-1]
        parts.append(part if names == axes_of(part) else names)
    return sharding.with_spec(PartitionSpec(*parts))


def flatten_shardings(
    function: str, shardings: Any, structure: Any, name: str = "shardings"
) -> list[NamedSharding | None]:
    """A sharding, or None, for each leaf of a structure.

    Raises:
      TypeError: something else is among them.
    """
    shardings = without_layouts(shardings)
    if shardings is None:
        return [None] * structure.num_leaves
    if isinstance(shardings, (Sharding, PartitionSpec)):
        return [sharding_of(function, shardings)] * structure.num_leaves
    flat = tree.flatten_prefix(shardings, structure, name, _is_leaf, function)
    return [each if each is None else sharding_of(function, each) for each in flat]


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The arrays of a pytree with other shardings, also in their types where those are over Explicit axes.

    Args:
      xs: a pytree of arrays.
      out_shardings: what `with_sharding_constraint` takes. One over Auto axes that names none leaves an array that was
        partitioned over Explicit axes to the compiler.

    Returns:
      A pytree like `xs`.

    Raises:
      TypeError: `out_shardings` has something else than shardings, or a spec while no mesh is current.
      ValueError: an axis of an array can't be split into equal shards; the message names the array and the spec.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import PartitionSpec as P
    >>> with xpr.set_mesh(xpr.make_mesh((1,), ("x",), (xpr.sharding.AxisType.Explicit,))):
    ...     xpr.typeof(xpr.reshard(jnp.arange(4), P("x")))
    ShapedArray(int32[4@x])
    """
    return _constrained("reshard", xs, out_shardings, lambda sharding, aval: sharding, _resharded)


def _resharded(x: Any, sharding: NamedSharding) -> Any:
    """The array with another sharding: any, where it leaves Explicit axes for Auto ones of which none is named."""
    if sharding.mesh.is_auto and aval_of(x).explicit is not None and not any(map(axes_of, sharding.spec)):
        return reshard_p.bind(x, sharding=sharding)
    return constrain(x, sharding)


def without_layouts(shardings: Any) -> Any:
    """A pytree of shardings, with that of each `Format` in its place."""
    return _of_formats(shardings, lambda x: x.sharding if isinstance(x, Format) else x)


def layouts_of(shardings: Any) -> Any:
    """The layout of each `Format` in a pytree of shardings, and None for the others; None if there are no layouts."""
    layouts = _of_formats(shardings, lambda x: x.layout if isinstance(x, Format) else None)
    return layouts if tree.leaves(layouts) else None


def _of_formats(shardings: Any, part: Callable[[Any], Any]) -> Any:
    if isinstance(shardings, (Sharding, PartitionSpec)) or shardings is None:
        return part(shardings)
    return tree.map(part, shardings, is_leaf=lambda x: isinstance(x, Format) or _is_leaf(x))


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec, Array))
