"""pure_callback, io_callback and debug_callback: calls of Python functions on the host, also from compiled programs.

Operands are the arrays that the function is called with; the function, the types of its results and whether calls are
ordered are parameters. Calls of programs with callbacks block (NOTE [programs with callbacks] in
backend/callbacks.py), so an exception in a callback reaches the caller, as a `CallbackError` of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.backend.callbacks import TARGETS, HostFunction
from xpr.backend.sharding import Sharding
from xpr.backend.stablehlo import Builder, Value
from xpr.control.callback.host_call import EachRow, anything, call_now, flat_callback, flatten_call, is_array
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.errors import ArgumentError, CallbackDerivativeError, UnsupportedRule
from xpr.primitives.bytes_moved import whole
from xpr.primitives.collectives.lowering import lower_axis_index, lower_sum_of_one
from xpr.primitives.composites import broadcast
from xpr.primitives.shapes import mapped_to
from xpr.primitives.slicing_in_dim import index_in_dim
from xpr.transforms.boundary import boundary

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


# -- Rules of all three


def _abstract(avals: Sequence[ShapedArray], *, result_avals: Sequence[ShapedArray] = (), **_: Any) -> list[ShapedArray]:
    return list(result_avals)


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    avals = params.get("result_avals", ())
    return call_now(flat_callback(params["callback"], len(args), len(avals)), args, avals)


def _reference(values: Sequence[np.ndarray], *, callback: Any, **params: Any) -> list[np.ndarray]:
    avals = params.get("result_avals", ())
    return flat_callback(callback, len(values), len(avals))(values, avals)


def _lower(
    b: Builder,
    operands: list[Value],
    avals: list[ShapedArray],
    *,
    callback: Any,
    effect: str | None,
    partitioned: bool = False,
    sharding: Any = None,
) -> list[Value]:
    if b.platform not in TARGETS:
        raise UnsupportedRule(
            f"Callbacks (pure_callback, io_callback, debug.print) work on CPU and CUDA, and this program is for "
            f"{b.platform}. Compile the function that calls back for one of these, as with jit(f, backend='cpu')."
        )
    called = flat_callback(callback, len(operands), len(avals))

    def on_host(*values: np.ndarray) -> list[np.ndarray]:
        return called(values, avals)

    if b.may_be_partitioned and not partitioned:
        if b.module.manual:
            return _called_by_one(b, on_host, operands, avals, effect)
        return _called_by_device(b, on_host, operands, avals, effect, _number_of(sharding, b.module.mesh))
    return b.callback(on_host, operands, avals, effect, of_parts=partitioned and b.may_be_partitioned)


def _number_of(sharding: Any, mesh: Any) -> int:
    """The number of the device that calls, in a program on the devices of a mesh: by default the first."""
    if sharding is None:
        return 0
    (device,) = sharding.device_set
    if device not in mesh.flat:
        raise ValueError(
            f"The sharding of a callback says that {device} calls, and the program runs on {mesh.text}. Name one of "
            "its devices, or leave sharding out."
        )
    return list(mesh.flat).index(device)


def _called_by_device(
    b: Builder,
    on_host: HostFunction,
    operands: list[Value],
    avals: list[ShapedArray],
    effect: str | None,
    number: int,
) -> list[Value]:
    """One call by one of the devices over which the compiler shards, which has the whole operands.

    XLA sends results to the other devices as sums with zeros, so floats are sent as their bits: -0.0 stays what it is.
    """

    def bits_on_host(*values: np.ndarray) -> list[np.ndarray]:
        return [_bits(np.asarray(x)) for x in on_host(*values)]

    outs = b.callback(bits_on_host, operands, list(map(_type_of_bits, avals)), effect, device=number)
    return [_of_bits(b, x, aval) for x, aval in zip(outs, avals)]


def _type_of_bits(aval: ShapedArray) -> ShapedArray:
    if aval.dtype not in dtypes.INEXACT:
        return aval
    word = np.dtype(f"uint{8 * dtypes.real_part_of(aval.dtype).itemsize}")
    return aval.update(shape=aval.shape if aval.dtype in dtypes.FLOATS else (*aval.shape, 2), dtype=word)


def _bits(x: np.ndarray) -> np.ndarray:
    """Floats as their bits, complex numbers as those of both parts along a last axis; others as they are."""
    if np.iscomplexobj(x):
        x = np.stack([x.real, x.imag], axis=-1)
    return x.view(f"uint{8 * x.dtype.itemsize}") if x.dtype in dtypes.FLOATS else x


def _of_bits(b: Builder, bits: Value, aval: ShapedArray) -> Value:
    if aval.dtype not in dtypes.COMPLEX:
        return b.op("stablehlo.bitcast_convert", [bits], aval) if aval.dtype in dtypes.FLOATS else bits
    parts = []
    for i in (0, 1):
        one = b.slice(bits, (*[0] * aval.ndim, i), (*aval.shape, i + 1))
        part = aval.update(dtype=dtypes.real_part_of(aval.dtype))
        parts.append(b.op("stablehlo.bitcast_convert", [b.reshape(one, aval.shape)], part))
    return b.op("stablehlo.complex", parts, aval)


def _called_by_one(
    b: Builder, on_host: HostFunction, operands: list[Value], avals: list[ShapedArray], effect: str | None
) -> list[Value]:
    """One call for the devices over which the compiler shards inside a manual region: all have the whole operands, and
    the first one calls.
    """
    mesh: Any = next(iter(b.module.manual.values()), b.module.mesh)
    axes = tuple([name for name in mesh.axis_names if name not in b.module.manual])
    ordered = effect == "ordered"

    def body(inner: Builder, values: list[Value]) -> list[Value]:
        (number,) = lower_axis_index(inner, [], [ShapedArray((), dtypes.int32)], axis_name=axes)
        results = inner.case(
            number,
            [
                lambda first: first.callback(on_host, values, avals, effect),
                lambda other: [other.constant(np.zeros((), aval.dtype)[()], aval) for aval in avals],
            ],
            avals,
            ordered=ordered,
        )
        if ordered:
            inner.token = lower_sum_of_one(inner, inner.take_token(), axes)
        return [lower_sum_of_one(inner, x, axes) for x in results]

    whole: list[tuple[()]] = [()]
    return b.manual_region(
        mesh, axes, operands, whole * len(operands), avals, whole * len(avals), body, ordered=ordered
    )


def _each_row(
    primitive: Primitive, size: int, values: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> Any:
    """One call, which calls the function for each row on the host."""
    called = flat_callback(params["callback"], len(values), len(params.get("result_avals", ())))
    params = {**params, "callback": EachRow(called, size, dims)}
    if "result_avals" in params:
        params["result_avals"] = rows_of(size, params["result_avals"])
    outs = primitive.bind(*values, **params)
    return outs, [0] * len(outs)


def rows_of(size: int, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    return tuple([a.with_axis(0, size) for a in avals])


# -- pure_callback


def _pure_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    method = params["vmap_method"]
    if method is None:
        raise UnsupportedRule(
            "pure_callback: vmap is only supported where it is said how to call the function for many rows. Say "
            "pure_callback(..., vmap_method='sequential') to call it for one row after another, or, if it takes arrays "
            "with one more leading axis, vmap_method='expand_dims' or 'broadcast_all'."
        )
    if method.startswith("sequential"):
        return _each_row(pure_callback_p, size, values, dims, params)
    rows = [as_rows(x, d, size, method) for x, d in zip(values, dims)]
    outs = pure_callback_p.bind(*rows, **{**params, "result_avals": rows_of(size, params["result_avals"])})
    return outs, [0] * len(outs)


def as_rows(x: Any, dim: int | None, size: int, method: str) -> Any:
    """An operand of a call for all rows at once."""
    if dim is not None:
        return mapped_to(x, dim, size)
    if method == "legacy_vectorized":
        return x
    return broadcast(x, (size if method == "broadcast_all" else 1,))


def _pure_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, callback: Any, sharding: Any = None, **_: Any
) -> list[Value]:
    return _lower(b, operands, avals, callback=callback, effect=None, sharding=sharding)


_NO_DERIVATIVE = (
    " callbacks do not support JVP: the derivative of a Python function can't be known. Give one: make the function "
    "that calls back a custom_jvp (or custom_vjp) function, and say its derivative with defjvp. Or keep the call out "
    "of the derivative: lax.stop_gradient on its arguments."
)
_NOT_LINEAR = " callbacks do not support transpose: a Python function is not known to be linear."

pure_callback_p = register(
    Primitive(
        "pure_callback",
        abstract=_abstract,
        params=("callback", "result_avals", "sharding", "vmap_method"),
        optional=("sharding",),
        reference=_reference,
        lower=_pure_lower,
        jvp=Unsupported("Pure" + _NO_DERIVATIVE, CallbackDerivativeError),
        transpose=Unsupported("Pure" + _NOT_LINEAR, CallbackDerivativeError),
        batch=_pure_batch,
        evaluate=_evaluate,
        multiple_results=True,
        call=True,
        calls_python=True,
        bytes_moved=whole,
    )
)


@boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a pure Python function on the host, as part of a program.

    It may be called any number of times, or not at all where its result is not used.

    Args:
      callback: a function of `xpr.Array`s (which `np.asarray` reads) to arrays; it may use NumPy, SciPy or xpr.
      result_shape_dtypes: a pytree of `ShapeDtypeStruct`s or arrays: the structure and the types of the result.
      *args: pytrees of arrays that it is called with.
      sharding: the one device that calls, as a sharding, in a program that the compiler partitions over several; None
        for the first of them. The function always runs on the host, in the process of that device.
      vmap_method: how `vmap` calls it. "sequential" (or "sequential_unrolled"): for one row after another. Or once, for
        all rows, its result with a new first axis: "expand_dims" gives arguments that are not mapped a first axis of
        length 1, "broadcast_all" one of the number of rows, "legacy_vectorized" none. None: not at all.
      **kwargs: pytrees of arrays that it is called with, by name.

    Returns:
      A pytree of arrays of the types declared.

    Raises:
      TypeError: the result does not have the declared types.
      UnsupportedRule: it is differentiated, or mapped while `vmap_method` is None.
      ValueError: a 64-bit type is declared while 64-bit types are off, or `sharding` names no device of the program.

    >>> import numpy as np
    >>> import xpr, xpr.numpy as jnp
    >>> def host_sort(x):
    ...     return xpr.pure_callback(np.sort, xpr.ShapeDtypeStruct(x.shape, x.dtype), x)
    >>> xpr.jit(host_sort)(jnp.array([3., 1., 2.]))
    Array([1., 2., 3.], dtype=float32)
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(f"pure_callback: vmap_method is one of {VMAP_METHODS} or None, and is {vmap_method!r}.")
    avals, out_tree = _declared("pure_callback", result_shape_dtypes)
    call, operands = flatten_call("pure_callback", callback, args, kwargs, out_tree, anything)
    device = _device_param("pure_callback", sharding)
    outs = pure_callback_p.bind(*operands, callback=call, result_avals=avals, vmap_method=vmap_method, **device)
    return tree.unflatten(out_tree, outs)


def _device_param(verb: str, sharding: Any) -> dict[str, Any]:
    """The parameter `sharding` of an operation: which device calls; none where the first one does."""
    if sharding is None:
        return {}
    if not isinstance(sharding, Sharding) or len(sharding.device_set) != 1:
        raise ValueError(f"{verb}: sharding names the one device that calls, or is None, and is {sharding!r}.")
    return {"sharding": sharding}


def _declared(verb: str, result_shape_dtypes: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, out_tree = tree.flatten(result_shape_dtypes)
    return tuple([declared_aval(verb, x) for x in leaves]), out_tree


def declared_aval(verb: str, x: Any) -> ShapedArray:
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        dtype = dtypes.canonical(x.dtype)
        if dtype != x.dtype:
            raise ValueError(
                f"{verb}: result_shape_dtypes cannot specify 64-bit types while enable_x64 is off, and {x!r} is of "
                f"{np.dtype(x.dtype).name}. Declare {dtype.name}, to which the result is converted, or "
                "set xpr.config.update('enable_x64', True)."
            )
        return ShapedArray(tuple(x.shape), dtype)
    try:
        return aval_of(x).update(weak_type=False)
    except TypeError:
        raise ArgumentError(
            f"{verb}: result_shape_dtypes must be a pytree of ShapeDtypeStructs or arrays, and holds {x!r}."
        ) from None


# -- io_callback


def _io_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    if params["ordered"]:
        raise ValueError(
            "io_callback: Cannot `vmap` ordered IO callbacks, since rows have no order among others. Use ordered=False "
            "(it is then called for one row after another), or loop over the rows with lax.map."
        )
    return _each_row(io_callback_p, size, values, dims, params)


def _effects(avals: Sequence[ShapedArray], *, ordered: bool, **_: Any) -> list[str]:
    return ["ordered" if ordered else "unordered"]


def _io_lower(
    b: Builder,
    operands: list[Value],
    avals: list[ShapedArray],
    *,
    callback: Any,
    ordered: bool,
    partitioned: bool = False,
    sharding: Any = None,
    **_: Any,
) -> list[Value]:
    (effect,) = _effects([], ordered=ordered)
    return _lower(b, operands, avals, callback=callback, effect=effect, partitioned=partitioned, sharding=sharding)


io_callback_p = register(
    Primitive(
        "io_callback",
        abstract=_abstract,
        params=("callback", "result_avals", "sharding", "ordered"),
        optional=("sharding",),
        reference=_reference,
        lower=_io_lower,
        jvp=Unsupported("IO" + _NO_DERIVATIVE, CallbackDerivativeError),
        transpose=Unsupported("IO" + _NOT_LINEAR, CallbackDerivativeError),
        batch=_io_batch,
        evaluate=_evaluate,
        effects=_effects,
        multiple_results=True,
        call=True,
        calls_python=True,
        bytes_moved=whole,
    )
)


@boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a Python function that has side effects: it is called once in each run of the program.

    Args:
      callback: a function of `xpr.Array`s to arrays.
      result_shape_dtypes: a pytree of `ShapeDtypeStruct`s or arrays: the structure and the types of the result.
      *args: pytrees of arrays that it is called with.
      sharding: the one device that calls, as a sharding, in a program that the compiler partitions over several; None
        for the first of them. The function always runs on the host, in the process of that device.
      ordered: whether it is run in order with the other ordered callbacks of a program; programs always run in order.
        In `shard_map` and `pmap` the order is that of each device.
      **kwargs: pytrees of arrays that it is called with, by name.

    Returns:
      A pytree of arrays of the types declared.

    Raises:
      TypeError: the result does not have the declared types.
      UnsupportedRule: it is differentiated.
      ValueError: it is ordered and mapped, a 64-bit type is declared while 64-bit types are off, or `sharding` names no
        device of the program.

    >>> import xpr, xpr.numpy as jnp
    >>> seen = []
    >>> def remember(x):
    ...     seen.append(float(x))
    >>> @xpr.jit
    ... def f(x):
    ...     xpr.io_callback(remember, None, x, ordered=True)
    ...     return x + 1
    >>> f(1.0), seen
    (Array(2., dtype=float32, weak_type=True), [1.0])
    """
    avals, out_tree = _declared("io_callback", result_shape_dtypes)
    call, operands = flatten_call("io_callback", callback, args, kwargs, out_tree, anything)
    device = _device_param("io_callback", sharding)
    outs = io_callback_p.bind(*operands, callback=call, ordered=bool(ordered), result_avals=avals, **device)
    return tree.unflatten(out_tree, outs)


# -- debug_callback, which returns nothing, and which transformations leave unchanged


def _debug_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """The call with the primals."""
    debug_callback_p.bind(*primals, **params)
    return [], []


def _debug_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """A call with all rows; of parts one for each row, since a device may have some of the rows only."""
    if not params["partitioned"]:
        return _each_row(debug_callback_p, size, values, dims, params)
    for i in range(size):
        row = [x if d is None else index_in_dim(x, i, d, keepdims=False) for x, d in zip(values, dims)]
        debug_callback_p.bind(*row, **params)
    return [], []


debug_callback_p = register(
    Primitive(
        "debug_callback",
        abstract=_abstract,
        params=("callback", "ordered", "partitioned"),
        reference=_reference,
        lower=_io_lower,
        jvp=_debug_jvp,
        transpose=Unsupported("Call back outside the function that is transposed: its values are cotangents there."),
        batch=_debug_batch,
        evaluate=_evaluate,
        effects=_effects,
        multiple_results=True,
        call=True,
        calls_python=True,
        bytes_moved=whole,
    )
)


def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a Python function to look at values while a program runs; its result is dropped.

    It never changes what is computed: under `grad` it sees the primal values, under `vmap` it is called for each row,
    and in a part of a program that is computed again (`checkpoint`) it is called once, in the forward pass.

    Args:
      callback: a function of `xpr.Array`s. Without it, `debug.callback(ordered=True)` returns a function that takes the
        other arguments.
      *args: pytrees that it is called with; leaves that are not arrays are passed on as they are.
      ordered: whether it is run in order with the other ordered callbacks.
      partitioned: whether each device calls with its parts of the arrays, in a program on several devices; otherwise
        it is called once, with whole arrays. In `shard_map` and `pmap` each device calls with its part in any case.
      **kwargs: pytrees that it is called with, by name.

    Returns:
      None.

    Raises:
      TypeError: there are other arguments, and no callback.
      ValueError: it is both ordered and partitioned.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.jit
    ... def f(x):
    ...     xpr.debug.callback(lambda y: print("the sine is", y), jnp.sin(x))
    ...     return x
    >>> _ = f(0.0)
    the sine is 0.0
    """
    if callback is None:
        refuse_early_arguments("debug.callback", args, kwargs)
        return partial(_debug_callback, ordered, partitioned)
    return _debug_callback(ordered, partitioned, callback, *args, **kwargs)


def refuse_early_arguments(what: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raises TypeError where a call that only sets options is given arguments for the function that it returns."""
    if args or kwargs:
        arguments = ", ".join([*map(repr, args), *kwargs])
        first = "callback" if what == "debug.callback" else "format"
        raise TypeError(
            f"{what.replace('.', '_')} received unexpected arguments in the two-call form, which has no {first} in its "
            f"first call: {arguments}. Give them in the second call, after the {first}."
        )


def _debug_callback(
    ordered: bool, partitioned: bool, callback: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> None:
    call, operands = flatten_call("debug.callback", callback, args, kwargs, None, is_array)
    bind_debug_callback("debug.callback", operands, call, ordered, partitioned)


def bind_debug_callback(what: str, operands: Sequence[Any], call: Any, ordered: bool, partitioned: bool) -> None:
    """A call, once or by each device.

    Raises:
      ValueError: it is both ordered and partitioned.
    """
    if ordered and partitioned:
        raise ValueError(
            f"{what}: ordered=True and partitioned=True were asked for, and devices call in any order. "
            "Leave out one of them."
        )
    debug_callback_p.bind(*operands, callback=call, ordered=bool(ordered), partitioned=bool(partitioned))


def effects_barrier() -> None:
    """Waits until the effects of all programs that were called have happened, which is when their calls return.

    >>> import xpr
    >>> xpr.effects_barrier()
    """
