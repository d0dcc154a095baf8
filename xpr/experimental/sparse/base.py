"""JAXSparse, the base class of sparse arrays: a shape, stored elements, and their flattening as pytrees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr.api.vmap import vmap
from xpr.core.interpreter import Tracer
from xpr.tree_util import register_pytree_node_class

__all__ = ["JAXSparse", "register"]


class JAXSparse:
    """A sparse array: of which only stored elements, `data`, may differ from zero.

    Operators and methods that are functions of `xpr.numpy` are installed by methods.py.
    """

    __array_priority__ = 2000  # so that dense arrays leave products to them
    data: Any
    shape: tuple[int, ...]
    __hash__ = None  # type: ignore[assignment]  # equality is elementwise

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.data.dtype

    @property
    def nse(self) -> int:
        """The number of stored elements, in each row of the batch axes."""
        raise NotImplementedError(type(self))

    @property
    def size(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return self.transpose()

    def __len__(self) -> int:
        return self.shape[0]

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its axes in another order, by default reversed."""
        raise NotImplementedError(type(self))

    def todense(self) -> Any:
        """The dense array."""
        raise NotImplementedError(type(self))

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what describes them."""
        raise NotImplementedError(type(self))

    def block_until_ready(self) -> Any:
        """Waits until the arrays are computed."""
        for array in self.tree_flatten()[0]:
            array.block_until_ready()
        return self

    def _details(self) -> str:
        """The numbers of batch and dense axes, of formats that have such, where there are any."""
        counts = {name: getattr(self, name, 0) for name in ("n_batch", "n_dense")}
        return "".join(f", {name}={count}" for name, count in counts.items() if count)

    def __repr__(self) -> str:
        try:
            text = f"{type(self).__name__}({self.dtype}{list(self.shape)}, nse={self.nse}{self._details()})"
        except (AttributeError, IndexError):  # in a pytree of something other than arrays, or of arrays that don't fit
            return f"{type(self).__name__}(<invalid>)"
        return f"{type(self.data).__name__}[{text}]" if isinstance(self.data, Tracer) else text


def register(cls: Any) -> Any:
    """A decorator that makes a class with `tree_flatten` and `tree_unflatten` a kind of pytree."""
    return register_pytree_node_class(cls)


def over_batch(fun: Callable[..., Any], n_batch: int) -> Callable[..., Any]:
    """The function mapped over the first `n_batch` axes of all its arguments."""
    for _ in range(n_batch):
        fun = vmap(fun)
    return fun
