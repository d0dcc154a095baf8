"""sharding_constraint: the operand, lying on several devices as a sharding says. The compiler arranges the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.backend.array import Array
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.partition import moved
from xpr.config import settings
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import context
from xpr.core.key_words import leaves_of_users
from xpr.core.primitive import Primitive, register
from xpr.transforms.flat import as_array


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, sharding: NamedSharding) -> list[Value]:
    """Nothing inside a manual region over the whole mesh, where each device has its part already."""
    if all(name in b.module.manual for name in sharding.mesh.axis_names):
        return operands
    (x,) = operands
    text = b.module.sharding(sharding.mesh, sharding.spec, x.aval.ndim)
    return [b.op("sdy.sharding_constraint", operands, x.aval, f"sharding = #sdy.sharding{text}")]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, sharding: NamedSharding) -> Any:
    """Tangents lie as their primals do."""
    (x,), (t,) = primals, tangents
    return [constrain(x, sharding)], [t if type(t) is Zero else constrain(t, sharding)]


def _batch(size: int, values: Sequence[Any], dims: Sequence[int], *, sharding: NamedSharding) -> Any:
    """Along the mapped axis the compiler cuts as it likes, unless vmap was told along which axes of the mesh."""
    (x,), (dim,) = values, dims
    ndim = aval_of(x).ndim - 1
    along = context.rows_along or PartitionSpec.UNCONSTRAINED
    return [constrain(x, sharding.with_rows(dim, ndim, along))], [dim]


def _mesh(*, sharding: NamedSharding) -> Mesh:
    return sharding.mesh


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Moves the array; axes about which nothing is said are left whole."""
    x, sharding = as_array(args[0]), params["sharding"]
    entries = [None if entry is PartitionSpec.UNCONSTRAINED else entry for entry in sharding.spec]
    return [moved(x, NamedSharding(sharding.mesh, PartitionSpec(*entries)))]


sharding_constraint_p = register(
    Primitive(
        "sharding_constraint",
        abstract=lambda avals, **params: list(avals),
        params=("sharding",),
        reference=lambda values, **params: list(values),
        lower=_lower,
        jvp=_jvp,
        transpose=lambda cts, operands, *, sharding: [constrain(cts[0], sharding)],
        batch=_batch,
        evaluate=_evaluate,
        mesh=_mesh,
    )
)


def constrain(x: Any, sharding: NamedSharding) -> Any:
    """One array, lying as the sharding says."""
    return sharding_constraint_p.bind(x, sharding=sharding)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The arrays of a pytree, made to lie on devices as shardings say, also in the middle of a jitted function.

    Args:
      x: a pytree of arrays.
      shardings: a `NamedSharding`, or a pytree prefix of `x` of those and None, which leaves an array as it is. Inside
        `set_mesh(mesh)` a `PartitionSpec` will do.
    Raises:
      TypeError: what is given is no sharding, or a spec where no mesh is current.
      ValueError: an axis of an array can't be cut into equal parts; the message names the array and the spec.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    >>> xpr.jit(lambda x: xpr.lax.with_sharding_constraint(2 * x, rows))(jnp.arange(4))
    Array([0, 2, 4, 6], dtype=int32)
    """
    paths, structure = tree.flatten_with_path(x)
    asked = flatten_shardings("with_sharding_constraint", shardings, structure)
    outs = []
    for (path, leaf), own, sharding in zip(paths, leaves_of_users(x), asked):
        if sharding is not None:
            sharding.check(np.shape(own), "with_sharding_constraint", f"x{tree.keystr(path)}")
            leaf = constrain(leaf, sharding)
        outs.append(leaf)
    return tree.unflatten(structure, outs)


def flatten_shardings(
    function: str, shardings: Any, structure: Any, name: str = "shardings"
) -> list[NamedSharding | None]:
    """A sharding, or None, for each leaf of a structure.

    Raises:
      TypeError: something else is among them.
    """
    if shardings is None:
        return [None] * structure.num_leaves
    if isinstance(shardings, (NamedSharding, PartitionSpec)):
        return [sharding_of(function, shardings)] * structure.num_leaves
    found = tree.flatten_prefix(shardings, structure, name, _is_entry, function)
    return [each if each is None else sharding_of(function, each) for each in found]


def sharding_of(function: str, given: Any) -> NamedSharding:
    """A sharding as it is; a spec as one over the current mesh.

    Raises:
      TypeError: it is neither, or no mesh is current.
    """
    if isinstance(given, NamedSharding):
        return given
    if not isinstance(given, PartitionSpec):
        raise TypeError(f"{function}: {given!r} is no NamedSharding.")
    if settings.mesh is None:
        raise TypeError(
            f"{function}: {given!r} is no NamedSharding, and no mesh is current; write NamedSharding(mesh, spec), or "
            "call it in `with xpr.set_mesh(mesh)`."
        )
    return NamedSharding(settings.mesh, given)


reshard = with_sharding_constraint


def _is_entry(x: Any) -> bool:
    return x is None or isinstance(x, (NamedSharding, PartitionSpec, Array))
