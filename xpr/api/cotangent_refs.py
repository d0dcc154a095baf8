"""Cotangents that are added to refs: what the function that `vjp` returns can do with the cotangents of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xpr import tree
from xpr.core.refs import Ref
from xpr.numpy.refs import addupdate
from xpr.transforms.boundary import boundary
from xpr.tree_nodes import Partial, register_dataclass, register_pytree_node

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue", "NotNeeded"]


@dataclass(frozen=True, slots=True)
class GradValue:
    """Stands for an argument in `f_vjp.with_refs` whose cotangent is to be returned."""


@dataclass(frozen=True, slots=True)
class DontWant:
    """Stands for an argument in `f_vjp.with_refs` whose cotangent is not needed."""


@register_dataclass
@dataclass(frozen=True, slots=True)
class GradRef:
    """Stands for a cotangent that was added to a ref."""


@register_dataclass
@dataclass(frozen=True, slots=True)
class DidntWant:
    """Stands for a cotangent that was not needed."""


@register_dataclass
@dataclass(frozen=True, slots=True)
class NotNeeded:
    """In place of an argument in `f_vjp.args_res`: no cotangent depends on its value."""


class VJP:
    """The function from cotangents of results to cotangents of arguments that `vjp` returns, a pytree of residuals.

    `args_res` is a list of the arguments, as far as they are residuals, with `NotNeeded()` for other leaves and tuples
    for nodes of every class. One may be taken out, so that it isn't kept in memory, and be put back before the call, as
    it was or as the argument: `f_vjp.args_res[0] = None`, and later `f_vjp.args_res[0] = x`. `opaque_residuals` is a
    list of the residuals that were computed.

    >>> import xpr, xpr.numpy as jnp
    >>> _, f_vjp = xpr.vjp(lambda x, y: x * jnp.sin(y), jnp.arange(2.0), jnp.zeros(2))
    >>> f_vjp.args_res, len(f_vjp.opaque_residuals)
    ([Array([0., 1.], dtype=float32), NotNeeded()], 2)
    """

    __module__ = "xpr"
    __slots__ = ("_fun", "_in_tree", "_sources", "args_res", "opaque_residuals", "__weakref__")

    def __init__(
        self, fun: Any, in_tree: tree.PyTreeDef, sources: tuple[int, ...], args_res: Any, opaque_residuals: Any
    ):
        """
        Args:
          fun: `fun(residuals, cotangent, wanted)` returns the cotangents of the leaves of the arguments; `wanted` says
            of which, None for all.
          in_tree: the structure of the tuple of arguments.
          sources: where each residual is: the number of a leaf of the arguments, or -1 for the next opaque one.
          args_res: for each argument its leaves, in nested tuples.
          opaque_residuals: a list.
        """
        self._fun, self._in_tree, self._sources = fun, in_tree, sources
        self.args_res, self.opaque_residuals = args_res, opaque_residuals

    def __call__(self, ct: Any, *more: Any) -> Any:
        if more:
            raise TypeError(
                f"vjp: the function of cotangents that vjp gives when applied to {self._fun.__name__} was called with "
                f"{1 + len(more)} arguments, and takes one: the cotangent of the result, of its structure. Cotangents "
                "of several results are a tuple."
            )
        return tree.unflatten(self._in_tree, self._fun(self._residuals(), ct))

    def _residuals(self) -> list[Any]:
        leaves: list[Any] = []
        for structure, arg in zip(self._in_tree.children(), self.args_res):
            leaves += [None] * structure.num_leaves if arg is None else _leaves_of(arg, structure)
        opaque = iter(self.opaque_residuals)
        residuals = [next(opaque) if i < 0 else leaves[i] for i in self._sources]
        if any(x is None for x in residuals):
            missing = next(i for i, arg in enumerate(self.args_res) if arg is None)
            raise ValueError(
                f"vjp: the cotangents depend on argument {missing}, which was taken out of the residuals. Put it back "
                f"before the call: f_vjp.args_res[{missing}] = value."
            )
        return residuals

    def with_refs(self, *refs: Any) -> Partial:
        """The same function, which adds the cotangents of arguments to refs.

        Args:
          *refs: for each argument of the differentiated function a pytree of its structure, of refs to which its
            cotangents are added; `ad.DontWant()` for cotangents that are not needed, and anything else for those that
            are to be returned.

        Returns:
          A function of the cotangent of the result. It returns a tuple with the cotangents, `ad.GradRef()` for each
          that was added to a ref, and `ad.DidntWant()` for each that is not needed.

        Raises:
          TreeMismatch: when called, the structure is not that of the arguments.

        >>> import xpr, xpr.numpy as jnp
        >>> total = xpr.new_ref(0.0)
        >>> for x in (1.0, 2.0):
        ...     _, f_vjp = xpr.vjp(lambda w: w * x, 3.0)
        ...     f_vjp.with_refs(total)(1.0)
        (GradRef(),)
        (GradRef(),)
        >>> total
        Ref(3., dtype=float32, weak_type=True)
        """
        return Partial(_add_to_refs, self, *refs)


def _leaves_of(arg: Any, structure: tree.PyTreeDef) -> list[Any]:
    """The leaves of an argument of `args_res`, which has its own structure where the user put it back."""
    leaves = tree.leaves(arg, is_leaf=lambda x: type(x) is NotNeeded)
    return leaves if len(leaves) == structure.num_leaves else structure.flatten_up_to(arg)


@boundary
def _add_to_refs(f_vjp: VJP, *arguments: Any) -> tuple[Any, ...]:
    *refs, ct = arguments
    targets, structure = tree.flatten(tuple(refs))
    if structure != f_vjp._in_tree:
        blank = tree.unflatten(f_vjp._in_tree, [0] * f_vjp._in_tree.num_leaves)
        tree.check_same_structure(blank, tuple(refs), "with_refs: the refs must have the structure of the arguments")
    cts = f_vjp._fun(f_vjp._residuals(), ct, [type(to) is not DontWant for to in targets])
    results: list[Any] = []
    for ct, to in zip(cts, targets):
        if type(to) is Ref:
            addupdate(to, None, ct)
        results.append(GradRef() if type(to) is Ref else DidntWant() if type(to) is DontWant else ct)
    return tree.unflatten(structure, results)


def vjp_of(fun: Any, in_tree: tree.PyTreeDef, leaves: Sequence[Any], residuals: Sequence[Any]) -> VJP:
    """The function `fun(residuals, cotangent, wanted)` with its residuals, which may be leaves of the arguments."""
    numbers = {id(x): i for i, x in enumerate(leaves)}
    sources = tuple([numbers.get(id(x), -1) for x in residuals])
    needed = set(sources)
    kept = [x if i in needed else NotNeeded() for i, x in enumerate(leaves)]
    args_res = in_tree.walk(lambda children, _: tuple(children), None, kept)  # no class of the user's takes NotNeeded()
    opaque = [x for x, i in zip(residuals, sources) if i < 0]
    return VJP(fun, in_tree, sources, list(args_res), opaque)


register_pytree_node(
    VJP,
    lambda node: ((node.args_res, node.opaque_residuals), (node._fun, node._in_tree, node._sources)),
    lambda static, children: VJP(*static, *children),
)
