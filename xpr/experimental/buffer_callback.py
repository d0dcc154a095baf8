"""`jax.experimental.buffer_callback`: Python functions that write their results into memory that is given.

On CPU. The memory is NumPy's, and is copied into the program's when the function has returned.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import errors, tree
from xpr.api.make_jaxpr import ShapeDtypeStruct
from xpr.control.callback.callback import io_callback, pure_callback
from xpr.core.avals import aval_of, describe

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]


class ExecutionStage(enum.Enum):
    """The stage of an execution that a function is called for."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class ExecutionContext:
    """In what circumstances a function is called: its `stage`, which is to execute it."""

    stage = ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """The stream of a GPU.

        Raises:
          JaxRuntimeError: functions are called on the CPU.
        """
        raise errors.JaxRuntimeError(
            "ExecutionContext.stream: XLA FFI GPU context is not available: callbacks are called on the CPU, which has "
            "no streams."
        )


class Buffer:
    """An argument or a result in memory: `np.asarray(buffer)` is an array that shares it.

    Args:
      array: the array.
    """

    def __init__(self, array: np.ndarray):
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    @property
    def writeable(self) -> bool:
        """Whether it is a result, or an argument that a result shares its memory with."""
        return self._array.flags.writeable

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array if dtype is None or dtype == self._array.dtype else self._array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: dict[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """A function of arrays that calls a Python function, which writes its results into buffers.

    Args:
      callback: `callback(context, out, *args)`, with `Buffer`s in the structures of results and arguments; it writes
        into `np.asarray(out)` and returns None.
      result_shape_dtypes: a pytree of what has a shape and a dtype: those of the results.
      has_side_effect: whether it is called once in each run, also where its results are not used.
      vmap_method: as for `pure_callback`.
      input_output_aliases: which flat arguments are in the memory of which results at first.
      command_buffer_compatible: has no effect on CPU.

    Returns:
      A function of pytrees of arrays.

    Raises:
      ValueError: an alias names what is not there, or arrays of different types; or the callback returns something.

    >>> import numpy as np, xpr, xpr.numpy as jnp
    >>> from xpr.experimental.buffer_callback import buffer_callback
    >>> def add_one(context, out, x):
    ...     np.asarray(out)[...] = np.asarray(x) + 1
    >>> xpr.jit(buffer_callback(add_one, xpr.ShapeDtypeStruct((3,), "float32")))(jnp.zeros(3))
    Array([1., 1., 1.], dtype=float32)
    """
    types, out_tree = tree.flatten(tree.map(lambda x: ShapeDtypeStruct(x.shape, x.dtype), result_shape_dtypes))
    aliases = {int(i): int(o) for i, o in (input_output_aliases or {}).items()}

    def call(*args: Any, **kwargs: Any) -> Any:
        flat, in_tree = tree.flatten((args, kwargs))
        _check_aliases(aliases, flat, types)
        filling = _Filling(callback, in_tree, out_tree, types, [aval_of(x).ndim for x in flat], aliases)
        if has_side_effect:
            outs = io_callback(filling, types, *flat)
        else:
            outs = pure_callback(filling, types, *flat, vmap_method=vmap_method)
        return tree.unflatten(out_tree, outs)

    return call


def _check_aliases(aliases: dict[int, int], args: list[Any], types: list[Any]) -> None:
    for i, o in aliases.items():
        pair = f"buffer_callback: input_output_aliases has {i}: {o}"
        if not 0 <= i < len(args):
            raise ValueError(f"{pair}, and the arguments are those from 0 to {len(args) - 1}.")
        if not 0 <= o < len(types):
            raise ValueError(f"{pair}, and the results are those from 0 to {len(types) - 1}.")
        aval = aval_of(args[i])
        if (aval.shape, aval.dtype) != (tuple(types[o].shape), types[o].dtype):
            raise ValueError(f"{pair}: the argument is {aval.str_short()}, and the result {types[o]}.")


class _Filling:
    """The function that XLA calls: it makes the memory of the results and has it filled."""

    def __init__(
        self, callback: Callable[..., None], in_tree: Any, out_tree: Any, types: list[Any], ranks: list[int],
        aliases: dict[int, int],
    ):  # fmt: skip
        self.callback, self.in_tree, self.out_tree, self.types = callback, in_tree, out_tree, types
        self.ranks, self.aliases = ranks, aliases  # the arguments' numbers of axes, without those of mapped rows
        self.__name__ = getattr(callback, "__name__", "buffer_callback")

    def __call__(self, *flat: Any) -> list[np.ndarray]:
        leading = [np.shape(x)[: np.ndim(x) - rank] for x, rank in zip(flat, self.ranks)]
        rows = np.broadcast_shapes(*leading)
        outs = [np.empty((*rows, *each.shape), each.dtype) for each in self.types]
        ins = [np.asarray(x) for x in flat]
        for i, o in self.aliases.items():
            outs[o][...] = ins[i]
            ins[i] = outs[o]
        args, kwargs = tree.unflatten(self.in_tree, list(map(Buffer, ins)))
        buffers = tree.unflatten(self.out_tree, list(map(Buffer, outs)))
        returned = self.callback(ExecutionContext(), buffers, *args, **kwargs)
        if returned is not None:
            raise ValueError(
                "buffer_callback: the callback must return None; it writes its results into `out`. It returned "
                f"{describe(returned)}."
            )
        return outs
