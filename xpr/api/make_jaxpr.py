"""make_jaxpr, eval_shape: tracing a function without running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.backend.layout import AUTO, Format
from xpr.backend.sharding import NamedSharding, PartitionSpec
from xpr.compile.argument_shardings import ArgumentShardings
from xpr.compile.known_calls import KnownCaller
from xpr.config import settings
from xpr.core.avals import ManualAxisType, ShapedArray, aval_of, is_of_users, without_state
from xpr.core.hi_types import AbstractValue
from xpr.core.interpreter import NamedAxis, axes_in_scope, current_type
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.refs import AbstractRef
from xpr.core.source import check_function
from xpr.primitives.random_keys import zeros_or_keys
from xpr.primitives.sharding_constraint import sharding_of
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, named_like, positions, signature_of, with_static
from xpr.transforms.stage import stage

__all__ = ["eval_shape", "make_jaxpr", "ShapeDtypeStruct"]


class ShapeDtypeStruct:
    """A shape and a dtype that stand for an array, or with `is_ref` for a ref, where only its type matters.

    Args:
      shape: a size for each axis.
      dtype: the dtype. One of 64 bits is kept while these are off, and stands for an array of 32 bits.
      sharding: how the array is distributed, a sharding, or a `PartitionSpec` over the mesh that is current when it is
        used; None for nothing said.
      weak_type: whether the dtype is that of a Python number.
      is_ref: whether it stands for a ref.
      manual_axis_type: in a `shard_map`, the axes over which the value varies, is unreduced or reduced; None for none.
    Raises:
      ValueError: `shape` or `dtype` is None, or the sharding is of arrays with more axes.
      TypeError: the layout of a `Format` is AUTO.

    >>> import xpr
    >>> xpr.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("_sharding", "aval", "dtype")

    aval: Any
    dtype: Any

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        manual_axis_type: ManualAxisType | None = None,
        is_ref: bool = False,
    ):
        if dtype is None or shape is None:
            raise ValueError("ShapeDtypeStruct: shape and dtype must be specified, and one is None.")
        self._sharding = sharding
        if isinstance(sharding, Format) and sharding.layout is AUTO:
            raise TypeError(
                "ShapeDtypeStruct: `Layout.AUTO` cannot be used in place of a device-local layout in a "
                "`ShapeDtypeStruct`, which is the type of an array that is there. Leave the layout out, and give "
                "Format(Layout.AUTO) as in_shardings of jit."
            )
        spec = getattr(self._unplaced, "spec", self._unplaced)
        if isinstance(spec, PartitionSpec) and len(spec) > len(shape):
            raise ValueError(
                f"ShapeDtypeStruct: an array of shape {tuple(shape)} has {len(shape)} axes, and can't be sharded by "
                f"{spec!r}, which has {len(spec)} elements."
            )
        known = sharding if settings.mesh is None else self.sharding
        explicit = known if isinstance(known, NamedSharding) else None
        array = ShapedArray(tuple(shape), dtypes.requested(dtype), weak_type, sharding=explicit)
        self.dtype = array.dtype if type(array.dtype) is dtypes.KeyType else dtypes.in_numpy(dtype)
        if manual_axis_type is not None:
            varying, unreduced, reduced = map(frozenset, manual_axis_type)
            array = array.with_varying(varying | unreduced).with_sums(unreduced, reduced)
        self.aval = AbstractRef(array) if is_ref else array

    @property
    def sharding(self) -> Any:
        """How the array is distributed, a spec over the mesh that is current now; None for nothing said.

        Raises:
          TypeError: it was given as a spec, and no mesh is current.
        """
        sharding = self._unplaced
        return sharding_of("ShapeDtypeStruct", sharding) if type(sharding) is PartitionSpec else sharding

    @property
    def _unplaced(self) -> Any:
        """The sharding as it was given; of a format, its sharding."""
        return self._sharding.sharding if isinstance(self._sharding, Format) else self._sharding

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The struct of an array's shape, dtype and weak type, and of its sharding where it was put somewhere by name.

        Args:
          x: an array, a NumPy array or a number.

        Returns:
          A `ShapeDtypeStruct`.

        >>> import xpr, xpr.numpy as jnp
        >>> xpr.ShapeDtypeStruct.like(jnp.zeros((2, 3)))
        ShapeDtypeStruct(shape=(2, 3), dtype=float32)
        """
        aval = aval_of(x)
        sharding = getattr(x, "sharding", None) if getattr(x, "committed", False) else None
        if sharding is None and getattr(aval, "explicit", None) is not None:  # of a traced array its type says it
            sharding = getattr(aval, "sharding")  # noqa: B009  # installed by backend/sharding.py
        return cls(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)

    @classmethod
    def of_type(cls, aval: Any) -> Any:
        """The struct of a type, with its sharding over Explicit axes of a mesh if it has one; a user's type itself."""
        if aval.is_high:
            return without_state(aval)
        explicit = None if type(aval) is AbstractRef else aval.explicit
        struct = cls(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=explicit and aval.sharding)
        struct.aval = aval
        return struct

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """The struct with some of its parts replaced, which are named as in the constructor.

        Raises:
          ValueError: it has a `Format`, and gets a sharding without one.

        >>> import xpr
        >>> xpr.ShapeDtypeStruct((2, 3), "float32").update(dtype="int32")
        ShapeDtypeStruct(shape=(2, 3), dtype=int32)
        """
        if isinstance(self._sharding, Format) and not isinstance(changes.get("sharding", self._sharding), Format):
            raise ValueError(
                f"updating ShapeDtypeStruct: it has the format {self._sharding!r}, and was given the sharding "
                f"{changes['sharding']!r}, which says nothing of the layout. Give a Format: Format(layout, sharding)."
            )
        names = ("shape", "dtype", "sharding", "weak_type", "manual_axis_type", "is_ref")
        parts = {name: getattr(self, name) for name in names if name != "sharding"}
        parts["sharding"] = self._sharding
        return type(self)(**{**parts, **changes})

    @property
    def format(self) -> Format:
        """The layout, which is left to the compiler unless a `Format` was given, and the sharding."""
        return self._sharding if isinstance(self._sharding, Format) else Format(None, self.sharding)

    shape = property(lambda self: self.aval.shape)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)
    is_ref = property(lambda self: type(self.aval) is AbstractRef)

    @property
    def manual_axis_type(self) -> ManualAxisType | None:
        """The manual axes in the type, None where it names none."""
        array = self.aval.inner_aval if self.is_ref else self.aval
        return None if array.mat.empty else array.mat

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object: a ShapeDtypeStruct without axes.")
        return self.shape[0]

    def __repr__(self) -> str:
        sharding = "" if self._sharding is None else f", sharding={self._sharding!r}"
        weak = ", weak_type=True" if self.weak_type else ""
        is_ref = ", is_ref=True" if self.is_ref else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{weak}{is_ref})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return False
        return self.aval is other.aval and self.dtype == other.dtype and self._sharding == other._sharding

    def __hash__(self) -> int:
        return hash(self.aval)


def shaped(x: Any) -> Any:
    """The aval of an array, or of anything with a shape and a dtype; types are their own."""
    if isinstance(x, AbstractValue):
        return x
    if is_of_users(x):
        return current_type(x)
    if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.ndarray, np.generic)):
        return getattr(x, "aval", None) or ShapedArray(x.shape, dtypes.canonical(x.dtype))
    return aval_of(x)


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that returns the jaxpr to which a function is traced for given arguments.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      static_argnums: positions of arguments that are passed to `fun` as they are.
      axis_env: names and sizes of mapped axes that `fun`'s collectives may name.
      return_shape: whether to return the structure of the result too, with a `ShapeDtypeStruct` at each leaf.

    Returns:
      A function of the same arguments (arrays, refs, types, or anything with a shape and a dtype) that returns a
      `ClosedJaxpr`, or `(ClosedJaxpr, structure)`.

    Raises:
      ConcretizationTypeError: `fun` needs the value of an argument, not only its type.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.make_jaxpr(lambda x: jnp.sin(x) * 2)(jnp.zeros(3))
    { lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0 in (c,) }
    """
    check_function(fun, "make_jaxpr")
    named_axes = [NamedAxis(name, size) for name, size in axis_env or ()]

    def make(*args: Any, **kwargs: Any) -> Any:
        static = positions(static_argnums, len(args), "static_argnums") if static_argnums != () else ()
        with axes_in_scope(*named_axes):
            closed, out_tree = trace_function(fun, args, kwargs, "staged by make_jaxpr", static)
        if not return_shape:
            return closed
        structs = list(map(ShapeDtypeStruct.of_type, closed.out_avals))
        return closed, tree.unflatten(out_tree, structs)

    wrapped = named_like(boundary(make), fun)
    wrapped.__name__, wrapped.__qualname__ = f"make_jaxpr({wrapped.__name__})", f"make_jaxpr({wrapped.__qualname__})"
    return wrapped


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
    """The shapes and dtypes of a function's results, without computing anything.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      *args: pytrees of arrays, or of anything with a shape and a dtype.
      **kwargs: likewise.

    Returns:
      A pytree of `ShapeDtypeStruct`s; a `ShapeDtypeStruct` among the results stands for an array of its type.

    Raises:
      TypeError: `fun` is no function.
      ConcretizationTypeError: `fun` needs the value of an argument, not only its type.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.eval_shape(jnp.dot, xpr.ShapeDtypeStruct((2, 3), "float32"), xpr.ShapeDtypeStruct((3,), "float32"))
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    if isinstance(fun, KnownCaller) and hasattr(fun, "eval_shape"):  # a jitted function knows more of its results
        return fun.eval_shape(*args, **kwargs)
    check_function(fun, "eval_shape")

    def with_arrays(*args: Any, **kwargs: Any) -> Any:
        return tree.map(lambda x: zeros_or_keys(x.aval) if type(x) is ShapeDtypeStruct else x, fun(*args, **kwargs))

    closed, out_tree = trace_function(named_like(with_arrays, fun), args, kwargs, "staged by eval_shape")
    structs = list(map(ShapeDtypeStruct.of_type, closed.out_avals))
    return tree.unflatten(out_tree, structs)
