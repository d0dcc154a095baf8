"""The operators and methods of sparse arrays that are functions of xpr.numpy, installed on BCOO and BCSR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xpr import numpy as jnp
from xpr.experimental.sparse.base import JAXSparse
from xpr.experimental.sparse.bcsr import BCSR, bcsr_broadcast_in_dim
from xpr.experimental.sparse.coordinates import BCOO
from xpr.experimental.sparse.layouts import (
    bcoo_eliminate_zeros,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_transpose,
    bcoo_update_layout,
)
from xpr.experimental.sparse.shapes import bcoo_broadcast_in_dim
from xpr.experimental.sparse.transform import sparsify


def _binary(fun: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The operator and its reflection."""
    on_sparse = sparsify(fun)

    def usual(self: Any, other: Any) -> Any:
        return on_sparse(self, other)

    def reflected(self: Any, other: Any) -> Any:
        return on_sparse(other, self)

    return usual, reflected


def _power(self: Any, other: Any) -> Any:
    return sparsify(lambda x: jnp.power(x, other))(self)


def _getitem(self: Any, key: Any) -> Any:
    """A part of the array; axes that None inserts before all others are batch axes."""
    keys = key if isinstance(key, tuple) else (key,)
    new = next((i for i, each in enumerate(keys) if each is not None), len(keys))
    part = sparsify(lambda x: x[keys[new:]])(self) if keys[new:] else self
    if not new or not isinstance(part, JAXSparse):
        return part[(None,) * new] if new else part
    broadcast: Any = bcsr_broadcast_in_dim if isinstance(part, BCSR) else bcoo_broadcast_in_dim
    shape = (1,) * new + part.shape
    return broadcast(part, shape=shape, broadcast_dimensions=range(new, len(shape)))


def _iterator(self: Any) -> Iterator[Any]:
    return iter([self[i] for i in range(len(self))])


def _sum(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The sum over all axes, dense, or over some, sparse; see `jnp.sum`."""
    return sparsify(lambda x: x.sum(*args, **kwargs))(self)


def _reshape(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The array with another shape; see `bcoo_reshape`."""
    return sparsify(lambda x: x.reshape(*args, **kwargs))(self)


def _astype(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The array with another dtype."""
    return sparsify(lambda x: x.astype(*args, **kwargs))(self)


def _transpose(self: Any, axes: Any = None) -> Any:
    """The array with its axes in another order, by default reversed; see `bcoo_transpose`."""
    return bcoo_transpose(self, permutation=range(self.ndim)[::-1] if axes is None else axes)


def _transpose_rows(self: Any, axes: Any = None) -> Any:
    """The array with its axes in another order, by default reversed."""
    return BCSR.from_bcoo(_transpose(self.to_bcoo(), axes))


def _sum_duplicates(self: Any, nse: int | None = None, remove_zeros: bool = True) -> Any:
    """The array with each index stored once, in order; inside `jit`, `nse` must be given."""
    return bcoo_eliminate_zeros(self, nse) if remove_zeros else bcoo_sum_duplicates(self, nse)


def _sort_indices(self: Any) -> Any:
    """The array with its indices sorted."""
    return bcoo_sort_indices(self)


def _update_layout(
    self: Any, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> Any:
    """The array with another number of batch and of dense axes; see `bcoo_update_layout`."""
    return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)


_METHODS: dict[str, Callable[..., Any]] = {
    "__abs__": sparsify(jnp.abs), "__neg__": sparsify(jnp.negative), "__pos__": sparsify(jnp.positive),
    "__pow__": _power, "__getitem__": _getitem, "__iter__": _iterator, "sum": _sum, "reshape": _reshape,
    "astype": _astype,
}  # fmt: skip
for _name, _fun in {
    "matmul": jnp.matmul, "mul": jnp.multiply, "truediv": jnp.divide, "add": jnp.add, "sub": jnp.subtract,
}.items():  # fmt: skip
    _METHODS[f"__{_name}__"], _METHODS[f"__r{_name}__"] = _binary(_fun)
for _name, _fun in {
    "gt": jnp.greater, "ge": jnp.greater_equal, "lt": jnp.less, "le": jnp.less_equal, "eq": jnp.equal,
    "ne": jnp.not_equal,
}.items():  # fmt: skip
    _METHODS[f"__{_name}__"], _ = _binary(_fun)
_METHODS["__rpow__"] = _binary(jnp.power)[1]
_OF_BCOO = {
    "transpose": _transpose, "sum_duplicates": _sum_duplicates, "sort_indices": _sort_indices,
    "update_layout": _update_layout,
}  # fmt: skip


def install() -> None:
    """Gives the classes their methods."""
    for cls, methods in ((BCOO, {**_METHODS, **_OF_BCOO}), (BCSR, {**_METHODS, "transpose": _transpose_rows})):
        for name, fun in methods.items():
            setattr(cls, name, fun)


install()
