"""Policies of `checkpoint`: they say for each operation in the checkpointed function whether its results may be saved.

A policy is a function `policy(primitive, *avals, **params) -> bool` of the types of the operands and the operation's
parameters. True means that the results may be saved from the forward pass; they are if the gradient needs them.
False means that they are recomputed. The arguments of the checkpointed function are always saved.

    checkpoint(layer, policy=checkpoint_policies.dots_saveable)

The result `Offloadable("device", "pinned_host")` means that they are saved in another memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from xpr import tree
from xpr.core.avals import ShapedArray
from xpr.core.memory import checked_kind
from xpr.core.primitive import Primitive
from xpr.dtypes import ANY
from xpr.primitives.dot import dot_general_p
from xpr.primitives.elementwise_rules import elementwise
from xpr.primitives.windows.convolution import conv_general_dilated_p
from xpr.text.parameters import register_functions, register_parameter

__all__ = [
    "checkpoint_dots", "checkpoint_dots_with_no_batch_dims", "dots_saveable", "dots_with_no_batch_dims_saveable",
    "everything_saveable", "nothing_saveable", "offload_dot_with_no_batch_dims", "save_and_offload_only_these_names",
    "save_any_names_but_these", "save_anything_except_these_names", "save_from_both_policies", "save_only_these_names",
]  # fmt: skip

Policy = Callable[..., Any]


class Verdict:
    """A policy's result other than True or False."""

    __slots__ = ("name", "saves")

    def __init__(self, name: str, saves: bool):
        self.name, self.saves = name, saves

    def __bool__(self) -> bool:
        return self.saves

    def __repr__(self) -> str:
        return self.name


Saveable, Recompute = Verdict("Saveable", True), Verdict("Recompute", False)

# -- Names


def _name_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, name: str) -> Any:
    """Names the primal value and not its tangent."""
    return [name_p.bind(*primals, name=name)], list(tangents)


name_p = elementwise(
    "name",
    fusion="view",
    over=ANY,
    lowers_to=lambda builder, operands, avals, name: operands,
    reference=lambda x, *, name: x,
    partials=[],
    transpose=lambda cts, operands, name: list(cts),
    exact=True,
)
name_p.jvp, name_p.flops = _name_jvp, None


def checkpoint_name(x: Any, name: str) -> Any:
    """The values of a pytree with a name, which policies of `checkpoint` refer to.

    Args:
      x: a pytree of arrays.
      name: the name, for policies such as `save_only_these_names`.

    Returns:
      The pytree.

    Raises:
      TypeError: the name is not a string.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.ad_checkpoint import checkpoint_name
    >>> xpr.make_jaxpr(lambda x: checkpoint_name(jnp.sin(x), "sine"))(1.0)
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = name[name=sine] b in (c,) }
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name: the name must be a string, and is {name!r}.")
    return tree.map(partial(name_p.bind, name=name), x)


# -- Policies


def everything_saveable(primitive: Primitive, *avals: ShapedArray, **params: Any) -> bool:
    """Everything may be saved, as without `checkpoint`.

    >>> from xpr import checkpoint_policies, lax
    >>> checkpoint_policies.everything_saveable(lax.sin_p)
    True
    """
    return True


def nothing_saveable(primitive: Primitive, *avals: ShapedArray, **params: Any) -> bool:
    """Nothing may be saved: all values are recomputed. This is the default of `checkpoint`.

    >>> from xpr import checkpoint_policies, lax
    >>> checkpoint_policies.nothing_saveable(lax.sin_p)
    False
    """
    return False


def dots_saveable(primitive: Primitive, *avals: ShapedArray, **params: Any) -> bool:
    """The results of matrix products and convolutions may be saved, as these are expensive to recompute.

    >>> from xpr import checkpoint_policies, lax
    >>> checkpoint_policies.dots_saveable(lax.dot_general_p), checkpoint_policies.dots_saveable(lax.sin_p)
    (True, False)
    """
    return primitive is dot_general_p or primitive is conv_general_dilated_p


def dots_with_no_batch_dims_saveable(primitive: Primitive, *avals: ShapedArray, **params: Any) -> bool:
    """The results of matrix products without batch dimensions may be saved.

    In a transformer these are the products with weights; those of queries with keys, which are larger, are not.

    >>> from xpr import checkpoint_policies, lax
    >>> numbers = (((1,), (0,)), ((), ()))
    >>> checkpoint_policies.dots_with_no_batch_dims_saveable(lax.dot_general_p, dimension_numbers=numbers)
    True
    """
    return primitive is dot_general_p and not any(params["dimension_numbers"][1])


register_functions(
    "checkpoint_policies", everything_saveable, nothing_saveable, dots_saveable, dots_with_no_batch_dims_saveable
)
checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


@register_parameter
@dataclass(frozen=True)
class PolicyByName:
    """A policy by the names of `checkpoint_name`: for values with one of these, another one, or none."""

    names: tuple[str, ...]
    these: bool
    others: bool
    unnamed: bool

    def __call__(self, primitive: Primitive, *avals: ShapedArray, **params: Any) -> bool:
        if primitive is not name_p:
            return self.unnamed
        return self.these if params["name"] in self.names else self.others


@register_parameter
@dataclass(frozen=True)
class EitherPolicy:
    """A policy: results may be saved if one of two policies allows it."""

    policy_1: Policy
    policy_2: Policy

    def __call__(self, primitive: Primitive, *avals: ShapedArray, **params: Any) -> Any:
        return self.policy_1(primitive, *avals, **params) or self.policy_2(primitive, *avals, **params)


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """A policy: only values that `checkpoint_name` gave one of these names may be saved.

    Args:
      *names_which_can_be_saved: the names, each an argument of its own.

    Returns:
      The policy.

    Raises:
      TypeError: a name is not a string.

    >>> import xpr
    >>> policy = xpr.checkpoint_policies.save_only_these_names("attention")
    """
    names = _checked(names_which_can_be_saved, "save_only_these_names")
    return PolicyByName(names, these=True, others=False, unnamed=False)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """A policy: only values that `checkpoint_name` gave a name may be saved, unless it is one of these.

    Args:
      *names_not_to_save: the names, each an argument of its own.

    Returns:
      The policy.

    Raises:
      TypeError: a name is not a string.

    >>> import xpr
    >>> policy = xpr.checkpoint_policies.save_any_names_but_these("attention")
    """
    names = _checked(names_not_to_save, "save_any_names_but_these")
    return PolicyByName(names, these=False, others=True, unnamed=False)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """A policy: everything may be saved but values that `checkpoint_name` gave one of these names.

    The operation that made such a value is another one and may be saved, so this seldom saves memory.

    Args:
      *names_not_to_save: the names, each an argument of its own.

    Returns:
      The policy.

    Raises:
      TypeError: a name is not a string.

    >>> import xpr
    >>> policy = xpr.checkpoint_policies.save_anything_except_these_names("attention")
    """
    names = _checked(names_not_to_save, "save_anything_except_these_names")
    return PolicyByName(names, these=False, others=True, unnamed=True)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """A policy: results may be saved if one of two policies allows it.

    Args:
      policy_1: the policy that is asked first.
      policy_2: the policy that is asked where the first says no.

    Returns:
      The policy.

    >>> from xpr import checkpoint_policies as cp, lax
    >>> policy = cp.save_from_both_policies(cp.dots_saveable, cp.save_only_these_names("sine"))
    >>> policy(lax.dot_general_p), policy(lax.sin_p)
    (True, False)
    """
    return EitherPolicy(policy_1, policy_2)


def _checked(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise TypeError(f"{what}: names are strings, each an argument of its own; {wrong[0]!r} is none.")
    return tuple(sorted(set(names)))


# -- Offloading


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """A policy: the results of matrix products without batch dimensions are saved in another memory.

    Args:
      offload_src: the kind of memory that they are computed in, "device".
      offload_dst: the kind that they are kept in until the cotangents come back, such as "pinned_host".

    Returns:
      The policy.

    Raises:
      ValueError: there is no such kind of memory.

    >>> from xpr import checkpoint_policies, lax
    >>> policy = checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")
    >>> policy(lax.dot_general_p, dimension_numbers=(((1,), (0,)), ((), ())))
    Offloadable(src='device', dst='pinned_host')
    """
    return OffloadedDots(_offloadable(offload_src, offload_dst))


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """A policy: values that `checkpoint_name` gave some names are saved, and others are saved in another memory.

    Args:
      names_which_can_be_saved: the names of values that are saved where they are computed.
      names_which_can_be_offloaded: the names of values that are saved in another memory.
      offload_src: the kind of memory that they are computed in, "device".
      offload_dst: the kind that they are kept in until the cotangents come back, such as "pinned_host".

    Returns:
      The policy.

    Raises:
      TypeError: a name is not a string.
      ValueError: a name is in both lists, or there is no such kind of memory.

    >>> import xpr
    >>> policy = xpr.checkpoint_policies.save_and_offload_only_these_names(
    ...     names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"],
    ...     offload_src="device", offload_dst="pinned_host")
    """
    what = "save_and_offload_only_these_names"
    saved = _checked(tuple(names_which_can_be_saved), what)
    offloaded = _checked(tuple(names_which_can_be_offloaded), what)
    if both := sorted({*saved} & {*offloaded}):
        raise ValueError(f"{what}: {both[0]!r} is a name to be saved and one to be offloaded: the names intersect.")
    return OffloadByName(saved, offloaded, _offloadable(offload_src, offload_dst))


@register_parameter
class Offloadable(NamedTuple):
    """A policy's result: values are saved in memory of the kind `dst`, and come back to `src` when they are read."""

    src: str
    dst: str


@register_parameter
@dataclass(frozen=True)
class OffloadedDots:
    """A policy: the results of matrix products without batch dimensions are offloaded."""

    to: Offloadable

    def __call__(self, primitive: Primitive, *avals: ShapedArray, **params: Any) -> Any:
        return self.to if dots_with_no_batch_dims_saveable(primitive, *avals, **params) else Recompute


@register_parameter
@dataclass(frozen=True)
class OffloadByName:
    """A policy by the names of `checkpoint_name`: values with some names are saved, and those with others offloaded."""

    saved: tuple[str, ...]
    offloaded: tuple[str, ...]
    to: Offloadable

    def __call__(self, primitive: Primitive, *avals: ShapedArray, **params: Any) -> Any:
        name = params["name"] if primitive is name_p else None
        if name in self.offloaded:
            return self.to
        return Saveable if name in self.saved else Recompute


def _offloadable(src: str, dst: str) -> Offloadable:
    return Offloadable(checked_kind(src, "of any kind"), checked_kind(dst, "of any kind"))
