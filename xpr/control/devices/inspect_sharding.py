"""inspect_sharding: calls a Python function with the sharding of a value in a program.

The compiler chooses shardings that are not specified, so the function is called when the program has been compiled,
once for each program. It gets no values, and the compiled program does not contain the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend import devices
from xpr.backend.array import Array
from xpr.backend.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray, array_in, aval_of, describe
from xpr.core.interpreter import Tracer
from xpr.core.primitive import Primitive, Unsupported, register

Callback = Callable[[Sharding], Any]


class OfARow:
    """Calls a function with the sharding of one row of an array whose rows are along an axis."""

    def __init__(self, callback: Callback, axis: int, ndim: int):
        self.callback, self.axis, self.ndim = callback, axis, ndim

    def __call__(self, sharding: Sharding) -> None:
        if isinstance(sharding, NamedSharding):
            entries = [*sharding.spec, *[None] * (self.ndim - len(sharding.spec))]
            del entries[self.axis]
            sharding = NamedSharding(sharding.mesh, PartitionSpec(*entries))
        self.callback(sharding)


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, callback: Callback) -> list[Value]:
    mesh = b.module.mesh
    if mesh is None:
        callback(SingleDeviceSharding(devices.local_devices(backend=b.platform)[0]))
    elif b.may_be_partitioned:
        b.inspect(operands[0], callback)
    else:
        callback(NamedSharding(mesh))
    return []


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, callback: Callback) -> Any:
    inspect_sharding_p.bind(*primals, callback=callback)
    return [], []


def _batch(size: int, values: Sequence[Any], dims: Sequence[int], *, callback: Callback) -> Any:
    inspect_sharding_p.bind(*values, callback=OfARow(callback, dims[0], aval_of(values[0]).ndim))
    return [], []


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    (x,) = args
    sharding = x.sharding if isinstance(x, Array) else SingleDeviceSharding(devices.default_device())
    params["callback"](sharding)
    return []


inspect_sharding_p = register(
    Primitive(
        "inspect_sharding",
        abstract=lambda avals, **params: [],
        params=("callback",),
        reference=lambda values, **params: [],
        lower=_lower,
        jvp=_jvp,
        transpose=Unsupported("Inspect outside the function that is transposed: its values are cotangents there."),
        batch=_batch,
        evaluate=_evaluate,
        effects=lambda avals, **params: ("unordered",),
        multiple_results=True,
    )
)


def inspect_array_sharding(value: Any, *, callback: Callback) -> None:
    """Calls a function with the sharding of an array; for a traced array, with the one the compiler chose.

    Inside a jitted function it is called when the function is compiled; for a function that runs on one device, with
    that device. Under `vmap` it gets the sharding of one row. Values inside a shard_map are unsharded.

    Args:
      value: an array, or an object with a method `__jax_array__` that returns one.
      callback: a function of a sharding.

    Returns:
      None.

    Raises:
      TypeError: the value is not an array, or the callback not a function.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import NamedSharding, PartitionSpec as P
    >>> x = xpr.device_put(jnp.ones((2, 3)), NamedSharding(xpr.make_mesh((1,), ("x",)), P("x")))
    >>> xpr.debug.inspect_array_sharding(x, callback=print)
    NamedSharding(mesh=Mesh('x': 1), spec=P('x',))
    >>> def f(x):
    ...     xpr.debug.inspect_array_sharding(2 * x.T, callback=lambda sharding: print(sharding.num_devices))
    ...     return x
    >>> y = xpr.jit(f)(x)
    1
    """
    value = array_in(value)
    if not isinstance(value, (Array, Tracer)):
        raise TypeError(f"inspect_array_sharding: {describe(value)} is no array of xpr, and is on no device.")
    if not callable(callback):
        raise TypeError(f"inspect_array_sharding: callback is to be a function of a sharding, and is {callback!r}.")
    inspect_sharding_p.bind(value, callback=callback)
