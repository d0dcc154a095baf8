"""make_jaxpr, eval_shape: tracing a function without running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.compile.argument_shardings import ArgumentShardings
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.interpreter import NamedAxis, axes_in_scope
from xpr.core.jaxpr import ClosedJaxpr
from xpr.primitives.shapes import zeros_like_aval
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, named_like, positions, signature_of, with_static
from xpr.transforms.stage import stage


class ShapeDtypeStruct:
    """A shape and a dtype that stand for an array where only its type matters.

    >>> import xpr
    >>> xpr.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("aval", "sharding")

    def __init__(self, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False):
        if dtype is None or shape is None:
            raise ValueError("ShapeDtypeStruct needs a shape and a dtype.")
        self.aval = ShapedArray(tuple(shape), dtypes.canonical(dtype), weak_type)
        self.sharding = sharding

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("A ShapeDtypeStruct without axes has no length.")
        return self.shape[0]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self.aval is other.aval

    def __hash__(self) -> int:
        return hash(self.aval)


def shaped(x: Any) -> ShapedArray:
    """The aval of an array, or of anything with a shape and a dtype."""
    if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.ndarray, np.generic)):
        return getattr(x, "aval", None) or ShapedArray(x.shape, dtypes.canonical(x.dtype))
    return aval_of(x)


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that traces `fun` for given arguments and gives its closed jaxpr.

    Args:
      fun: takes and gives pytrees of arrays.
      static_argnums: positional arguments that are passed on as they are.
      axis_env: names and sizes of mapped axes that `fun`'s collectives may name.
      return_shape: give also the structure of the result, with a `ShapeDtypeStruct` at each leaf.
    Returns:
      A function of the same arguments (arrays, or anything with a shape and a dtype) giving a `ClosedJaxpr`.
    Raises:
      ConcretizationTypeError: `fun` needs the value of an argument, not only its type.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.make_jaxpr(lambda x: jnp.sin(x) * 2)(jnp.zeros(3))
    { lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0 in (c,) }
    """
    if not callable(fun):
        raise TypeError(f"make_jaxpr traces functions, and got {fun!r}.")
    named_axes = [NamedAxis(name, size) for name, size in axis_env or ()]

    def make(*args: Any, **kwargs: Any) -> Any:
        static = positions(static_argnums, len(args), "static_argnums") if static_argnums != () else ()
        with axes_in_scope(*named_axes):
            closed, out_tree = trace_function(fun, args, kwargs, "staged by make_jaxpr", static)
        if not return_shape:
            return closed
        structs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in closed.out_avals]
        return closed, tree.unflatten(out_tree, structs)

    made = named_like(boundary(make), fun)
    made.__name__, made.__qualname__ = f"make_jaxpr({made.__name__})", f"make_jaxpr({made.__qualname__})"
    return made


def trace_function(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], verb: str, static: Sequence[int] = ()
) -> tuple[ClosedJaxpr, Any]:
    """The closed jaxpr of `fun(*args, **kwargs)` and the structure of its result."""
    dynamic = [x for i, x in enumerate(args) if i not in static]
    leaves, in_tree = tree.flatten((tuple(dynamic), kwargs))
    flat = FlatFunction(with_static(fun, static, args), in_tree)
    signature = signature_of(verb, flat.fun, dynamic, kwargs)
    closed = stage(flat, [shaped(x) for x in leaves], signature, ArgumentShardings(leaves))
    return closed, flat.out_tree


@boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The structure of `fun`'s result, a `ShapeDtypeStruct` at each leaf, found without computing anything.

    Args:
      *args, **kwargs: arrays, or anything with a shape and a dtype.
    Returns:
      The structure; a `ShapeDtypeStruct` among the results stands for an array of its type.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.eval_shape(jnp.dot, xpr.ShapeDtypeStruct((2, 3), "float32"), xpr.ShapeDtypeStruct((3,), "float32"))
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """

    def with_arrays(*args: Any, **kwargs: Any) -> Any:
        return tree.map(lambda x: zeros_like_aval(x.aval) if type(x) is ShapeDtypeStruct else x, fun(*args, **kwargs))

    closed, out_tree = trace_function(named_like(with_arrays, fun), args, kwargs, "staged by eval_shape")
    structs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in closed.out_avals]
    return tree.unflatten(out_tree, structs)
