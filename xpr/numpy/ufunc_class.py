"""ufunc: a function of elements that NumPy's methods `reduce`, `accumulate`, `reduceat`, `outer` and `at` come with."""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.core.source import describe_function
from xpr.numpy.axes import no_out
from xpr.numpy.concatenation import append, concatenate
from xpr.numpy.creation import asarray
from xpr.numpy.indexing.at import at as indexed_at
from xpr.numpy.indexing.take import take
from xpr.numpy.mapping import vectorize
from xpr.numpy.promotion import asarray_like
from xpr.numpy.reshaping import broadcast_to, reshape
from xpr.numpy.where_select import where as choose
from xpr.primitives.composites import broadcast_shapes
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.shapes import expand_dims, move_axis, one_axis
from xpr.primitives.slicing import broadcasted_iota
from xpr.transforms.stage import stage

__all__ = ["frompyfunc", "ufunc"]


def _scan(step: Callable[..., Any], carry: Any, rows: Any) -> tuple[Any, Any]:
    from xpr.control.scan.function import scan  # 15 ms of imports, for methods of functions that have none of their own

    return scan(step, carry, rows)


class ufunc(functools.partial):  # type: ignore[type-arg]  # a partial, since calls of one run in C
    """A function of the elements of arrays that broadcast; the methods are those of functions of two arrays.

    Those of `xpr.numpy` are there; `frompyfunc` makes more.

    >>> import xpr.numpy as jnp
    >>> isinstance(jnp.add, jnp.ufunc), jnp.add.nin, jnp.add.nout, jnp.add.identity
    (True, 2, 1, 0)
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]
    _counts: tuple[int, int, int]
    _identity: Any
    _of: Any
    _special: dict[str, Callable[..., Any] | None]

    def __new__(
        cls,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> ufunc:
        """A ufunc of `func`.

        Args:
          func: a function of `nin` scalars.
          nin: the number of arguments.
          nout: the number of results.
          name: the name; None for that of the function.
          nargs: the number of arguments; None for `nin`.
          identity: what changes no element it is combined with; None for nothing.
          call: the function for arrays that broadcast; None for `func`, mapped.
          reduce: the method, made for this function; None for a loop.
          accumulate: likewise.
          at: likewise.
          reduceat: likewise.
        """
        made = super().__new__(cls, vectorize(func) if call is None else call)
        made._of = func
        made._special = {"reduce": reduce, "accumulate": accumulate, "at": at, "reduceat": reduceat}
        made.__wrapped__, made.__doc__, made.__module__ = func, func.__doc__, func.__module__
        made.__name__ = made.__qualname__ = describe_function(func) if name is None else name
        arguments = operator.index(nin)
        made._counts = arguments, operator.index(nout), arguments if nargs is None else operator.index(nargs)
        made._identity = identity
        return made

    _func = property(lambda self: self._of)  # where libraries look for the function, as in JAX
    nin = property(lambda self: self._counts[0], doc="The number of arguments.")
    nout = property(lambda self: self._counts[1], doc="The number of results.")
    nargs = property(lambda self: self._counts[2], doc="The number of arguments.")
    identity = property(lambda self: self._identity, doc="What changes no element it is combined with, or None.")

    def _key(self) -> tuple[Any, ...]:
        return self._of, self.__name__, self.nin, self.nout, self.nargs, self.identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __reduce__(self) -> Any:
        """By name, where its module has it under its name."""
        if getattr(sys.modules.get(self.__module__), self.__name__, None) is self:
            return self.__name__
        return functools.partial(frompyfunc, identity=self.identity), (self._of, self.nin, self.nout)

    def _check_method(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(
                f"{self.__name__}.{method}: combines two elements to one, and {self.__name__} takes {self.nin} and "
                f"gives {self.nout}."
            )

    def _dtype(self, *xs: Any) -> Any:
        """The dtype of what the function makes of elements of the arrays."""
        elements = [aval_of(x).update(shape=()) for x in xs]
        return stage(lambda *elements: [asarray(self(*elements))], elements).out_avals[0].dtype

    def reduce(
        self,
        a: Any,
        axis: int | None = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """The elements along an axis combined by the function, from the first to the last.

        Args:
          a: array.
          axis: the axis; None for all elements, in their order.
          dtype: the dtype to combine in; None for that of the function's results.
          out: None: arrays are immutable.
          keepdims: whether the axis stays, with size 1.
          initial: what the first element is combined with; None for the identity, or nothing.
          where: booleans that broadcast to `a`: elements where it is False are left out. None for all.

        Returns:
          An array without the axis.

        Raises:
          ValueError: the function is none of two arrays; or there is no element, or `where` was given, and neither an
            identity nor `initial` is there to start with.

        >>> import xpr.numpy as jnp
        >>> jnp.bitwise_or.reduce(jnp.array([[1, 2], [4, 2]]), axis=1)
        Array([3, 6], dtype=int32)
        """
        self._check_method("reduce")
        no_out("reduce", out)
        start = self.identity if initial is None else initial
        if where is not None and start is None:
            raise ValueError(f"{self.__name__}.reduce: has no identity; with `where` give `initial` too.")
        if where is not None and aval_of(where).dtype != dtypes.bool_:
            raise ValueError(f"{self.__name__}.reduce: `where` must have dtype bool, and has {aval_of(where).dtype}.")
        a = asarray_like(a)
        if special := self._special["reduce"]:
            options = {"dtype": dtype, "initial": initial, "where": where}
            return special(a, axis=axis, keepdims=keepdims, **{k: v for k, v in options.items() if v is not None})
        shape = aval_of(a).shape
        if axis is None:
            kept, rows = (1,) * len(shape), reshape(a, (aval_of(a).size,))
            mask = None if where is None else reshape(broadcast_to(where, shape), (aval_of(a).size,))
        else:
            axis = one_axis(axis, len(shape))
            kept, rows = (*shape[:axis], 1, *shape[axis + 1 :]), move_axis(a, axis, 0)
            mask = None if where is None else move_axis(broadcast_to(where, shape), axis, 0)
        dtype = self._dtype(a, a) if dtype is None else dtypes.requested(dtype)
        rows = convert_element_type(rows, dtype)
        if start is None:
            if not aval_of(rows).shape[0]:
                raise ValueError(f"{self.__name__}.reduce: an axis without elements, and no identity to give for it.")
            start, rows = rows[0], rows[1:]
        total = broadcast_to(convert_element_type(asarray(start), dtype), aval_of(rows).shape[1:])

        def step(total: Any, row: Any) -> tuple[Any, None]:
            x, used = row
            combined = convert_element_type(self(total, x), dtype)
            return (combined if used is None else choose(used, combined, total)), None

        total, _ = _scan(step, total, (rows, mask))
        return reshape(total, kept) if keepdims else total

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """The elements along an axis combined up to each: the first, the first two, and so on.

        Args:
          a: array.
          axis: the axis.
          dtype: the dtype to combine in; None for that of the function's results.
          out: None: arrays are immutable.

        Returns:
          An array of the shape of `a`.

        Raises:
          ValueError: the function is none of two arrays, or `axis` is no axis of `a`.

        >>> import xpr.numpy as jnp
        >>> jnp.subtract.accumulate(jnp.array([5, 1, 2]))
        Array([5, 4, 2], dtype=int32)
        """
        self._check_method("accumulate")
        no_out("accumulate", out)
        if isinstance(axis, tuple) or axis is None:
            raise ValueError(f"{self.__name__}.accumulate: goes along one axis, and axis={axis} was given.")
        a = asarray_like(a)
        axis = one_axis(axis, aval_of(a).ndim)
        if special := self._special["accumulate"]:
            return special(a, axis, dtype)
        dtype = self._dtype(a, a) if dtype is None else dtypes.requested(dtype)
        rows = convert_element_type(move_axis(a, axis, 0), dtype)
        if not aval_of(a).size:
            return convert_element_type(a, dtype)

        def step(total: Any, row: Any) -> tuple[Any, Any]:
            total = convert_element_type(self(total, row), dtype)
            return total, total

        _, running = _scan(step, rows[0], rows[1:])
        return move_axis(concatenate([rows[:1], running]), 0, axis)

    def reduceat(self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """The elements combined in segments that start at given indices; each ends where the next one starts.

        A segment whose successor starts no later is the element at its index alone.

        Args:
          a: array with an axis.
          indices: integers [n], increasing for segments that have more than an element.
          axis: the axis.
          dtype: the dtype to combine in; None for that of `a`.
          out: None: arrays are immutable.

        Returns:
          An array with n elements along the axis.

        Raises:
          ValueError: the function is none of two arrays, `a` is a scalar, `axis` none of its axes, or `indices` has not
            one axis.

        >>> import xpr.numpy as jnp
        >>> jnp.add.reduceat(jnp.array([1, 2, 3, 4, 5]), jnp.array([0, 2]))
        Array([ 3, 12], dtype=int32)
        """
        self._check_method("reduceat")
        no_out("reduceat", out)
        a, indices = asarray_like(a), asarray(indices)
        if not aval_of(a).ndim or aval_of(indices).ndim != 1:
            raise ValueError(
                f"{self.__name__}.reduceat: takes an array with an axis and one axis of indices, and got "
                f"{aval_of(a).str_short()} and {aval_of(indices).str_short()}."
            )
        if isinstance(axis, (tuple, list)) or axis is None:
            raise ValueError(f"{self.__name__}.reduceat: goes along one axis, and axis={axis} was given.")
        axis = one_axis(axis, aval_of(a).ndim)
        if special := self._special["reduceat"]:
            return special(a, indices, axis, dtype)
        dtype = aval_of(a).dtype if dtype is None else dtypes.requested(dtype)
        rows = convert_element_type(move_axis(a, axis, 0), dtype)
        n, *rest = aval_of(rows).shape
        starts = expand_dims(indices, range(1, 1 + len(rest)))
        ends = expand_dims(append(indices[1:], n), range(1, 1 + len(rest)))

        def step(totals: Any, row: Any) -> tuple[Any, None]:
            position, x = row
            combined = convert_element_type(self(totals, expand_dims(x, (0,))), dtype)
            return choose((position > starts) & (position < ends), combined, totals), None

        positions = broadcasted_iota(aval_of(indices).dtype, (n,), 0)
        totals, _ = _scan(step, take(rows, indices, axis=0), (positions, rows))
        return move_axis(totals, 0, axis)

    def outer(self, A: Any, B: Any, /) -> Any:
        """The function of every pair of elements.

        Args:
          A: array.
          B: array.

        Returns:
          An array [*A.shape, *B.shape].

        Raises:
          ValueError: the function is none of two arrays.

        >>> import xpr.numpy as jnp
        >>> jnp.subtract.outer(jnp.array([5, 7]), jnp.array([1, 2]))
        Array([[4, 3],
               [6, 5]], dtype=int32)
        """
        self._check_method("outer")
        A, B = asarray_like(A), asarray_like(B)
        left, right = aval_of(A), aval_of(B)
        return self(reshape(A, (*left.shape, *[1] * right.ndim)), reshape(B, (*[1] * left.ndim, *right.shape)))

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """A copy of `a` in which the elements at `indices` are what the function makes of them, and of those of `b`.

        An index that comes more than once is updated as often.

        Args:
          a: array.
          indices: an index, or a tuple of them: slices, integers, or arrays of integers.
          b: array that broadcasts to the elements at the indices; None for functions of one array.
          inplace: False.

        Returns:
          An array of the shape of `a`.

        Raises:
          NotImplementedError: `inplace` is not False: arrays are immutable.

        >>> import xpr.numpy as jnp
        >>> jnp.add.at(jnp.zeros(3), jnp.array([0, 2, 2]), 1.0, inplace=False)
        Array([1., 0., 2.], dtype=float32)
        """
        if inplace:
            raise NotImplementedError(
                f"{self.__name__}.at: arrays are immutable. Say inplace=False, and use the result."
            )
        a = asarray_like(a)
        operands = [] if b is None else [asarray_like(b)]
        if special := self._special["at"]:
            return special(a, indices, *operands)
        dtype = self._dtype(a, *operands)
        a, operands = convert_element_type(a, dtype), [convert_element_type(x, dtype) for x in operands]
        indices = indices if isinstance(indices, tuple) else (indices,)
        stacks = [aval_of(i).shape for i in indices if not isinstance(i, slice)]
        stack = broadcast_shapes(*stacks) if stacks else ()

        def updated(a: Any, index: Any, operands: list[Any]) -> Any:
            element = indexed_at(a)[index]
            return element.set(self(element.get(), *operands))

        if not stack:
            return updated(a, indices, operands)
        count = math.prod(stack)
        flat = [None if isinstance(i, slice) else reshape(broadcast_to(i, stack), (count,)) for i in indices]
        rows = []
        for x in operands:
            rest = aval_of(x).shape[len(stack) :]
            rows.append(reshape(broadcast_to(x, (*stack, *rest)), (count, *rest)))

        def step(a: Any, row: Any) -> tuple[Any, None]:
            numbers, operands = row
            index = tuple(i if number is None else number for i, number in zip(indices, numbers))
            return updated(a, index, operands), None

        return _scan(step, a, (flat, rows))[0]


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A function of scalars as a ufunc: of arrays that broadcast, with the methods of `jnp.add`.

    Args:
      func: a function of `nin` scalars.
      nin: the number of its arguments.
      nout: the number of its results.
      identity: what changes no scalar it is combined with; None for nothing.

    Returns:
      A ufunc.

    >>> import xpr.numpy as jnp
    >>> digits = jnp.frompyfunc(lambda x, y: 10 * x + y, 2, 1)
    >>> digits(jnp.arange(3), 7), digits.reduce(jnp.array([1, 2, 3]))
    (Array([ 7, 17, 27], dtype=int32), Array(123, dtype=int32))
    """
    return ufunc(func, nin, nout, identity=identity)
