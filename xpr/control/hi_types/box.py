"""Box: a mutable value that holds any pytree of values, whose structure and types may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpr import tree
from xpr.control.hi_types.hi_primitive import HiPrimitive
from xpr.core.avals import Zero, typeof
from xpr.core.effects import Effect, control_flow_allowed_effects, custom_derivatives_allowed_effects
from xpr.core.hi_types import AvalQDD, MutableHiType, aval_method, register_hitype
from xpr.core.interpreter import Tracer, current_type
from xpr.primitives.shapes import instantiate
from xpr.transforms.on_arrays import lowered, raised


def cur_qdd(x: Any) -> Any:
    """The state of a mutable value now: what of its type may change.

    Args:
      x: a value of a `MutableHiType`, which may be traced.

    Returns:
      The state, as `x.cur_qdd()` gives it for an object.

    Raises:
      TypeError: the value is not mutable.

    >>> from xpr.experimental import cur_qdd
    >>> from xpr.experimental.hijax import Box
    >>> cur_qdd(Box(1.0)).leaf_avals
    (ShapedArray(float32[], weak_type=True),)
    """
    kind = current_type(x)
    if type(kind) is not AvalQDD:
        raise TypeError(f"cur_qdd takes a mutable value, and got one of type {kind.str_short()}.")
    return kind.qdd


@dataclass(frozen=True)
class BoxState:
    """What of the type of a box may change: the types of the leaves that it holds, and their structure."""

    leaf_avals: tuple[Any, ...]
    treedef: Any

    def to_tangent_qdd(self) -> BoxState:
        """The state of a box that holds tangents of what a box in this state holds."""
        return BoxState(tuple([aval.to_tangent_aval() for aval in self.leaf_avals]), self.treedef)

    def normalize(self) -> BoxState:
        """The state without the weakness of the types in it."""
        return BoxState(tuple([aval.normalize() for aval in self.leaf_avals]), self.treedef)


class BoxEffect(Effect):
    """The effect of reading or changing a box."""

    def __repr__(self) -> str:
        return "BoxEffect"


box_effect = BoxEffect()
control_flow_allowed_effects.add_type(BoxEffect)
custom_derivatives_allowed_effects.add_type(BoxEffect)


class _NewBox(HiPrimitive):
    """A new box, which holds None."""

    def abstract_eval(self) -> Any:
        return AvalQDD(BoxType(), BoxState((), tree.structure(None))), {box_effect}

    def to_lojax(self) -> Any:
        return Box.holding(None)


class _Get(HiPrimitive):
    """The leaves that a box holds, of types `avals`."""

    multiple_results = True

    def abstract_eval(self, box: Any, *, avals: tuple[Any, ...]) -> Any:
        return list(avals), {box_effect}

    def to_lojax(self, box: Any, *, avals: tuple[Any, ...]) -> Any:
        return tree.leaves(box.held)

    def jvp(self, primals: Any, tangents: Any, *, avals: Any = (), **params: Any) -> Any:
        of_tangents = tuple([aval.to_tangent_aval() for aval in avals])
        return self.bind(*primals, avals=avals), self.bind(*tangents, avals=of_tangents)


class _Set(HiPrimitive):
    """Changes what a box holds, to a pytree with the structure `treedef`."""

    multiple_results = True

    def abstract_eval(self, box: Any, *leaf_avals: Any, treedef: Any) -> Any:
        box.mutable_qdd.update(BoxState(leaf_avals, treedef))
        return [], {box_effect}

    def to_lojax(self, box: Any, *leaves: Any, treedef: Any) -> Any:
        box.held = tree.unflatten(treedef, leaves)
        return []

    def jvp(self, primals: Any, tangents: Any, *, treedef: Any = None, **params: Any) -> Any:
        box_tangent, *leaf_tangents = tangents
        if type(box_tangent) is Zero:
            raise TypeError(
                "A value that is being differentiated is put into a Box that holds no derivatives: it was made outside "
                "of the differentiated function. Put in lax.stop_gradient of the value, or make the box in the "
                "function."
            )
        self.bind(*primals, treedef=treedef)
        self.bind(box_tangent, *map(instantiate, leaf_tangents), treedef=treedef)
        return [], []


_new_box_p, _get_p, _set_p = _NewBox("new_box"), _Get("box_get"), _Set("box_set")


def new_box() -> Any:
    """A box that holds None.

    >>> from xpr.experimental import hijax
    >>> hijax.new_box().get() is None
    True
    """
    return _new_box_p.bind()


def box_get(box: Any) -> Any:
    """What a box holds.

    Args:
      box: a box, which may be traced.

    Returns:
      A pytree.

    >>> from xpr.experimental import hijax
    >>> hijax.box_get(hijax.Box((1.0, 2.0)))
    (1.0, 2.0)
    """
    state = cur_qdd(box)
    return tree.unflatten(state.treedef, _get_p.bind(box, avals=state.leaf_avals))


def box_set(box: Any, val: Any) -> None:
    """Changes what a box holds.

    Args:
      box: a box, which may be traced.
      val: a pytree of values; it may have another structure and other types than what the box holds.

    Raises:
      TypeError: the value is being differentiated, and the box holds no derivatives.

    >>> from xpr.experimental import hijax
    >>> box = hijax.Box()
    >>> hijax.box_set(box, [1.0])
    >>> box.get()
    [1.0]
    """
    leaves, treedef = tree.flatten(val)
    _set_p.bind(box, *leaves, treedef=treedef)


class BoxType(MutableHiType):
    """The type of boxes; what they hold is their state."""

    get = aval_method(box_get)
    set = aval_method(box_set)

    def __hash__(self) -> int:
        return hash(BoxType)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoxType)

    def __repr__(self) -> str:
        return "Box"

    def to_tangent_aval(self) -> BoxType:
        return self

    def lo_ty_qdd(self, state: BoxState) -> list[Any]:
        return [each for aval in state.leaf_avals for each in aval.lo_ty()]

    def new_from_loval(self, state: BoxState, *lo_vals: Any) -> Box:
        return Box.holding(tree.unflatten(state.treedef, raised(state.leaf_avals, lo_vals)))

    def read_loval(self, state: BoxState, value: Any) -> list[Any]:
        return lowered(state.leaf_avals, tree.leaves(box_get(value)))

    def update_from_loval(self, state: BoxState, value: Any, *lo_vals: Any) -> None:
        box_set(value, tree.unflatten(state.treedef, raised(state.leaf_avals, lo_vals)))


class _TracedToo(type):
    """Makes traced boxes instances of `Box`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if isinstance(instance, Tracer):
            return isinstance(typeof(instance), BoxType)
        return super().__instancecheck__(instance)


class Box(metaclass=_TracedToo):
    """A mutable value that holds a pytree of values, which functions that get or close over it read and change.

    Args:
      init_val: what it holds first.

    >>> import xpr
    >>> from xpr.experimental.hijax import Box
    >>> total = Box(0.0)
    >>> @xpr.jit
    ... def add(x):
    ...     total.set(total.get() + x)
    >>> add(1.0), add(2.0), total.get()
    (None, None, Array(3., dtype=float32, weak_type=True))
    """

    __slots__ = ("held",)
    held: Any

    def __new__(cls, init_val: Any = None) -> Any:
        box = new_box()
        box_set(box, init_val)
        return box

    @classmethod
    def holding(cls, value: Any) -> Box:
        """A box as an object, also while a function is traced."""
        box = super().__new__(cls)
        box.held = value
        return box

    get, set = box_get, box_set

    def cur_qdd(self) -> BoxState:
        """The types and the structure of what it holds."""
        leaves, treedef = tree.flatten(self.held)
        return BoxState(tuple(map(typeof, leaves)), treedef)

    type_state = cur_qdd

    def __repr__(self) -> str:
        return f"Box({self.held!r})"


register_hitype(Box, lambda box: BoxType())
