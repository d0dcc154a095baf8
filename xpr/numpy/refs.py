"""Mutable arrays: making, reading and writing refs."""

from __future__ import annotations

import math
from typing import Any

from xpr import dtypes
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.hi_types import HiType
from xpr.core.ref_views import NewShape, RefView
from xpr.core.refs import AbstractRef, Ref
from xpr.core.source import here
from xpr.errors import ArgumentError, RefError
from xpr.numpy.axes import broadcasts_to
from xpr.numpy.creation import array, empty
from xpr.numpy.indexing.read import getitem
from xpr.numpy.indexing.update import update
from xpr.numpy.indexing.update_operations import ADD, SET, Operation
from xpr.numpy.reshaping import completed_shape, reshape
from xpr.primitives.elementwise import convert_element_type_p
from xpr.primitives.shapes import broadcast_to
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import as_array
from xpr.transforms.refs import current_owner, read, write

__all__ = ["AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]


class _Views:
    """`ref.at`, to be indexed."""

    __slots__ = ("ref",)

    def __init__(self, ref: Ref | RefView):
        self.ref = ref

    def __getitem__(self, index: Any) -> RefView:
        return RefView(self.ref, index)


def _value(ref: Any) -> Any:
    if type(ref) is not RefView:
        return read(ref)
    value, sizes = _value(ref.ref), ref.new_shape
    return getitem(value, ref.index) if sizes is None else reshape(value, sizes)


def _store(ref: Any, value: Any) -> None:
    """Replaces all elements of a ref or a view."""
    if type(ref) is RefView:
        of: Any = ref.ref
        _store(of, update(_value(of), ref.index, value, SET) if ref.new_shape is None else reshape(value, of.shape))
        return
    inner = ref.aval.inner_aval
    if aval_of(value) is not inner and not inner.is_high:
        value = convert_element_type_p.bind(value, new_dtype=inner.dtype, weak_type=inner.weak_type)
    write(ref, as_array(value))


def _is_whole(index: Any) -> bool:
    if type(index) is tuple:
        return not index or (len(index) == 1 and index[0] is Ellipsis)
    return index is None or index is Ellipsis


def _holds_user_value(what: str, ref: Any, index: Any) -> bool:
    """Whether a ref holds a value of a user's type, which is read and written as a whole.

    Raises:
      RefError: it does, and the index is of a part.
    """
    if type(ref) is RefView or not ref.aval.inner_aval.is_high:
        return False
    sizes = getattr(ref.aval.inner_aval, "shape", ())
    parts = index if type(index) is tuple else (index,)
    if _is_whole(index) or (
        all(type(part) is slice for part in parts)
        and all(range(n)[part] == range(n) for n, part in zip(sizes, parts))
        and len(parts) <= len(sizes)
    ):
        return True
    raise RefError(
        f"{what}: a Ref of type {ref.aval.str_short()} holds a value of a user's type, which is read and written as a "
        f"whole, by ref[...]; the index is {index!r}."
    )


def _checked(what: str, ref: Any) -> Any:
    if type(ref) is not Ref and type(ref) is not RefView:
        raise ArgumentError(f"{what} takes a Ref, which new_ref makes, and got {describe(ref)}.")
    return ref


def _fitting(what: str, ref: Any, value: Any) -> Any:
    """A value in the dtype of a ref, to which it is converted if both are integers, or it is a Python scalar.

    Raises:
      ValueError: its dtype is another one.
      RefError: it is a ref.
    """
    if type(value) in (Ref, RefView):
        raise RefError(f"{what}: a Ref can't hold a Ref. Store its value: ref[...].")
    aval, wanted = aval_of(value), ref.dtype
    if aval.dtype == wanted:
        return value
    weak_float = aval.weak_type and aval.dtype in dtypes.FLOATS and wanted in dtypes.FLOATS
    if not weak_float and not (aval.dtype in dtypes.INTEGERS and wanted in dtypes.INTEGERS):
        raise ValueError(
            f"{what}: a Ref of {wanted.name} is written with a value of type {aval.str_short()}, and refs keep their "
            f"dtype. Convert the value: x.astype({wanted.name!r})."
        )
    return convert_element_type_p.bind(value, new_dtype=wanted, weak_type=aval.weak_type)


def _write(what: str, ref: Any, idx: Any, value: Any, operation: Operation) -> None:
    """Updates the elements of a ref at an index; values broadcast to them."""
    if _holds_user_value(what, _checked(what, ref), idx) and operation is SET:
        _store(ref, value)
        return
    value = _fitting(what, ref, value)
    if operation is not SET or not _is_whole(idx):
        _store(ref, update(_value(ref), ... if idx is None else idx, value, operation))
        return
    shape, value_shape = ref.shape, aval_of(value).shape
    if value_shape != shape:
        if not broadcasts_to(value_shape, shape):
            raise ValueError(f"{what}: a Ref of shape {shape} can't hold a value of shape {value_shape}.")
        value = broadcast_to(value, shape)
    _store(ref, value)


@boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A mutable array with an initial value.

    Functions that are given refs, or close over them, may read and write them under all transformations.

    Args:
      init_val: an array; the ref keeps its shape and dtype.
      memory_space: must be None.
      kind: "no_grad_no_remat" for a ref that holds no derivatives: what is written to it is not differentiated.

    Returns:
      A `Ref`.

    Raises:
      TypeError: `init_val` is no array.
      RefError: it is a ref.

    >>> import xpr, xpr.numpy as jnp
    >>> total = xpr.new_ref(0.0)
    >>> @xpr.jit
    ... def count(x):
    ...     total[...] += x.sum()
    >>> count(jnp.arange(3.0))
    >>> count(jnp.ones(2))
    >>> total
    Ref(5., dtype=float32, weak_type=True)
    """
    if type(init_val) in (Ref, RefView):
        raise RefError("new_ref: a Ref can't hold a Ref. Give its value: ref[...].")
    value = init_val if aval_of(init_val).is_high else array(init_val)
    return _made(AbstractRef(aval_of(value), memory_space, kind), value)


def _made(aval: AbstractRef, value: Any) -> Ref:
    owner = current_owner()
    return Ref(aval, owner, value, source=None if owner is None else here())


@boundary
def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A mutable array of a type, whose initial elements are arbitrary.

    Args:
      ty: anything with a shape and a dtype.
      memory_space: must be None.

    Returns:
      A `Ref`.

    >>> import xpr
    >>> xpr.empty_ref(xpr.ShapeDtypeStruct((2,), "float32")).shape
    (2,)
    """
    if isinstance(ty, HiType):
        arrays = [empty(aval.shape, aval.dtype) for aval in ty.lo_ty()]
        return _made(AbstractRef(ty, memory_space), ty.raise_val(*arrays))  # type: ignore[arg-type]  # as of an array
    aval = ShapedArray(ty.shape, dtypes.canonical(ty.dtype))
    return _made(AbstractRef(aval, memory_space), empty(aval.shape, aval.dtype))


def _taken(what: str, ref: Ref) -> Any:
    """Ends the use of a ref, and returns its value."""
    if ref.owner is not current_owner() or ref.variable is not None:
        raise RefError(
            f"{what}: a Ref can be frozen and freed only in the function in which it was made, not in one that it was "
            "passed to or that closes over it, and is transformed. Read it there: ref[...]."
        )
    value, ref.value = ref.held(), None
    return value


@boundary
def freeze(ref: Ref) -> Any:
    """The last value of a ref, which can't be used any more.

    Args:
      ref: a ref that was made in this function.

    Returns:
      An array.

    Raises:
      RefError: the ref was frozen before, or made in another function.

    >>> import xpr
    >>> xpr.ref.freeze(xpr.new_ref(1))
    Array(1, dtype=int32, weak_type=True)
    """
    return _taken("freeze", _checked("freeze", ref))


@boundary
def free_ref(ref: Ref) -> tuple[()]:
    """Makes a ref unusable; returns nothing, `()`.

    Raises:
      RefError: the ref was frozen or freed before, or made in another function.

    >>> import xpr
    >>> xpr.ref.free_ref(xpr.new_ref(1))
    ()
    """
    _taken("free_ref", _checked("free_ref", ref))
    return ()


@boundary
def get(ref: Ref, idx: Any = None) -> Any:
    """What a ref holds, `ref[idx]`.

    Args:
      ref: a ref.
      idx: an index by NumPy's rules; None for all.

    Returns:
      An array.

    Raises:
      IndexError: a static index is out of range.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.ref.get(xpr.new_ref(jnp.arange(5)), slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    value = _value(_checked("get", ref))
    return value if _is_whole(idx) or _holds_user_value("get", ref, idx) else getitem(value, idx)


@boundary
def set(ref: Ref, idx: Any, value: Any) -> None:
    """Writes a ref, `ref[idx] = value`.

    Args:
      ref: a ref.
      idx: an index by NumPy's rules; None for all.
      value: an array of the ref's dtype, which broadcasts to the elements that are written.

    Raises:
      ValueError: the shape or the dtype doesn't fit.
      IndexError: a static index is out of range.

    >>> import xpr, xpr.numpy as jnp
    >>> ref = xpr.new_ref(jnp.zeros(3))
    >>> xpr.ref.set(ref, 1, 10.0)
    >>> ref
    Ref([ 0., 10.,  0.], dtype=float32)
    """
    _write("set", ref, idx, value, SET)


@boundary
def swap(ref: Ref, idx: Any, value: Any) -> Any:
    """Writes a ref as `set` does, and returns the elements from before.

    Args:
      ref: a ref.
      idx: an index by NumPy's rules; None for all.
      value: an array of the ref's dtype, which broadcasts to the elements that are written.

    Returns:
      An array: `ref[idx]` before.

    Raises:
      ValueError: the shape or the dtype doesn't fit.
      IndexError: a static index is out of range.

    >>> import xpr, xpr.numpy as jnp
    >>> ref = xpr.new_ref(jnp.arange(3))
    >>> xpr.ref.swap(ref, 1, 10)
    Array(1, dtype=int32)
    >>> ref
    Ref([ 0, 10,  2], dtype=int32)
    """
    before = get(ref, idx)
    set(ref, idx, value)
    return before


@boundary
def addupdate(ref: Ref, idx: Any, x: Any) -> None:
    """Adds to the elements of a ref, `ref[idx] += x`; elements that are named twice have both values added.

    Args:
      ref: a ref.
      idx: an index by NumPy's rules; None for all.
      x: an array of the ref's dtype, which broadcasts to the elements.

    Raises:
      ValueError: the shape or the dtype doesn't fit.
      IndexError: a static index is out of range.

    >>> import xpr, xpr.numpy as jnp
    >>> ref = xpr.new_ref(jnp.arange(3))
    >>> xpr.ref.addupdate(ref, jnp.array([0, 0]), 10)
    >>> ref
    Ref([20,  1,  2], dtype=int32)
    """
    _write("addupdate", ref, idx, x, ADD)


# -- Methods


def _reshaped(self: Any, *sizes: Any) -> RefView:
    """A view of all elements in another shape, of which one size may be -1."""
    aval = ShapedArray(self.shape, self.dtype)
    shape = completed_shape(aval, sizes[0] if len(sizes) == 1 else sizes)
    if math.prod(shape) != aval.size:
        raise TypeError(f"reshape: a Ref of shape {aval.shape} has no view of shape {shape}, which has other elements.")
    return RefView(self, (NewShape(shape),))


def _setitem(self: Any, index: Any, value: Any) -> None:
    set(self, (None,) if index is None else index, value)


_METHODS: dict[str, Any] = {
    "__getitem__": lambda self, index: get(self, (None,) if index is None else index),
    "__setitem__": _setitem,
    "get": lambda self, idx=None: get(self, idx),
    "set": lambda self, value, idx=None: set(self, idx, value),
    "swap": lambda self, value, idx=None: swap(self, idx, value),
    "addupdate": lambda self, x, idx=None: addupdate(self, idx, x),
    "at": property(_Views),
    "reshape": _reshaped,
}
for _name, _method in _METHODS.items():
    setattr(Ref, _name, _method)
    setattr(RefView, _name, _method)
RefView.shape = property(lambda self: self.new_shape or aval_of(_value(self)).shape)  # type: ignore[attr-defined]
