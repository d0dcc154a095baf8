"""x.at[index]: updates that NumPy writes as x[index] += y, as methods that return the updated array."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xpr.numpy.creation import asarray
from xpr.numpy.indexing.read import read
from xpr.numpy.indexing.update import update
from xpr.numpy.indexing.update_operations import (
    ADD,
    DIVIDE,
    MAX,
    MIN,
    MULTIPLY,
    POWER,
    SET,
    SUBTRACT,
    Operation,
    applied,
)
from xpr.primitives.gather.windows import GatherScatterMode
from xpr.primitives.sharding_constraint import decided


class IndexUpdateHelper:
    """`x.at`, to be indexed."""

    __slots__ = ("array",)

    def __init__(self, array: Any):
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"IndexUpdateHelper({self.array!r})"


def at(self: Any) -> IndexUpdateHelper:
    """Updates and reads at an index: `x.at[index].set(y)` returns a copy of x with the elements x[index] replaced.

    | x.at[i]...            | in NumPy             |
    |-----------------------|----------------------|
    | `.set(y)`             | `x[i] = y`           |
    | `.add(y)`             | `np.add.at(x, i, y)` |
    | `.subtract(y)`        | `np.subtract.at`     |
    | `.multiply(y)`, `mul` | `np.multiply.at`     |
    | `.divide(y)`          | `np.divide.at`       |
    | `.power(y)`           | `np.power.at`        |
    | `.min(y)`, `.max(y)`  | `np.minimum.at`      |
    | `.apply(f)`           | `f.at(x, i)`         |
    | `.get()`              | `x[i]`               |

    `mode` says what is done with traced indices out of bounds: "drop" (the default of updates), "fill" with
    `fill_value` (for get), "clip" to the nearest inside, "promise_in_bounds" for there are none (the default of get,
    which clips). `indices_are_sorted` and `unique_indices` are promises that may make it faster;
    `wrap_negative_indices=False` takes negative indices as outside.

    >>> import xpr.numpy as jnp
    >>> x = jnp.zeros(4)
    >>> x.at[1:3].set(jnp.array([5.0, 6.0]))
    Array([0., 5., 6., 0.], dtype=float32)
    >>> x.at[jnp.array([0, 0, 9])].add(1.0)
    Array([2., 0., 0., 0.], dtype=float32)
    """
    return IndexUpdateHelper(self)


def _method(operation: Operation, doc: str) -> Callable[..., Any]:
    def method(
        self: IndexUpdateRef,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        values = asarray(values) if isinstance(values, (list, tuple)) else values
        if out_sharding is None:
            return update(
                self.array, self.index, values, operation, indices_are_sorted, unique_indices, mode,
                wrap_negative_indices,
            )  # fmt: skip
        flags = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        written = partial(update, self.array, self.index, values, operation, *flags)
        return decided(out_sharding, operation.name, written)

    method.__name__ = operation.name
    method.__qualname__ = f"IndexUpdateRef.{operation.name}"
    method.__doc__ = doc
    return method


class IndexUpdateRef:
    """`x.at[index]`: the elements of x at an index. The methods are described at `Array.at`."""

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any):
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x[index]`, with options for indices out of bounds, and a sharding for the result.

        >>> import xpr.numpy as jnp
        >>> jnp.arange(3).at[jnp.array([2, 5])].get(mode="fill", fill_value=-1)
        Array([ 2, -1], dtype=int32)
        """
        options: dict[str, Any] = {
            "mode": mode, "fill_value": fill_value, "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices, "wrap_negative_indices": wrap_negative_indices,
        }  # fmt: skip
        return decided(out_sharding, "get", partial(read, self.array, self.index, **options))

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x with the elements at the index replaced by an elementwise function of them.

        An element that is named several times has the function applied as often. Such elements can't be differentiated
        through; say `unique_indices=True` where there are none.

        >>> import xpr.numpy as jnp
        >>> jnp.arange(4.0).at[2:].apply(jnp.square)
        Array([0., 1., 4., 9.], dtype=float32)
        """
        return update(
            self.array, self.index, None, applied(func), indices_are_sorted, unique_indices, mode,
            wrap_negative_indices,
        )  # fmt: skip

    set = _method(
        SET,
        """x with the elements replaced by values, which broadcast.

        >>> import xpr.numpy as jnp
        >>> jnp.zeros((2, 2)).at[0].set(1.0)
        Array([[1., 1.],
               [0., 0.]], dtype=float32)
        """,
    )
    add = _method(ADD, "x with values added to the elements, as often as they are named; of booleans, their or.")
    subtract = _method(SUBTRACT, "x with values subtracted from the elements, as often as they are named.")
    multiply = mul = _method(MULTIPLY, "x with the elements multiplied by values; of booleans, their and.")
    divide = _method(DIVIDE, "x with the elements divided by values; the dtype stays.")
    power = _method(POWER, "x with the elements raised to the powers of values.")
    min = _method(MIN, "x with the elements replaced by their minimum with values.")
    max = _method(MAX, "x with the elements replaced by their maximum with values.")
