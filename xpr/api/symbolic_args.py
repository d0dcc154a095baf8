"""Types of arguments with symbolic shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr import tree
from xpr.api.make_jaxpr import ShapeDtypeStruct, shaped
from xpr.dimensions.scope import SymbolicScope, symbolic_shape


def symbolic_args_specs(
    args: Any, shapes_specs: Any, constraints: Sequence[str] = (), scope: SymbolicScope | None = None
) -> Any:
    """The types of arguments, with symbolic shapes.

    Args:
      args: a pytree of arrays, or of anything with a shape and a dtype.
      shapes_specs: a text for `symbolic_shape` for all arrays, or a pytree prefix of `args` of such texts; None for the
        shapes as they are.
      constraints: what holds of the dimension variables, as for `symbolic_shape`.
      scope: the scope of the variables; None for a new one.

    Returns:
      A pytree like `args`, with a `ShapeDtypeStruct` at each leaf.

    Raises:
      ValueError: a text can't be read or doesn't fit a shape, or both constraints and a scope are given.
      TreeMismatch: `shapes_specs` is no prefix of `args`.

    >>> import xpr.numpy as jnp
    >>> from xpr import export
    >>> export.symbolic_args_specs((jnp.ones((3, 1)), jnp.ones((3, 4))), "a, ...")
    (ShapeDtypeStruct(shape=(a, 1), dtype=float32), ShapeDtypeStruct(shape=(a, 4), dtype=float32))
    """
    if scope is not None and constraints:
        raise ValueError(
            "Give symbolic_args_specs constraints for a new scope, or a scope, which has its own; not both."
        )
    scope = SymbolicScope(constraints) if scope is None else scope
    leaves, structure = tree.flatten(args)
    specs = tuple(shapes_specs) if isinstance(args, tuple) and isinstance(shapes_specs, list) else shapes_specs
    texts = tree.flatten_prefix(specs, args, "symbolic_args_specs", is_leaf=lambda x: x is None)
    structs = []
    for x, text in zip(leaves, texts):
        aval = shaped(x)
        shape = symbolic_shape(text, scope=scope, like=aval.shape)
        structs.append(ShapeDtypeStruct(shape, aval.dtype))
    return tree.unflatten(structure, structs)
