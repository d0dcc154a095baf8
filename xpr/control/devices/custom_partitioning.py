"""custom_partitioning: a function that says itself how it is computed on several devices.

In a program on several devices it is a call that the partitioner of XLA knows: Shardy chooses shardings by the sharding
rule, and then asks for the program of one device, which the function `partition` of the user gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xpr import tree
from xpr.backend.hlo_shardings import hlo_sharding, sharding_from_hlo
from xpr.backend.mesh import Mesh
from xpr.backend.partitioners import Partitioner, can_partition, partitioned_call
from xpr.backend.sharding import NamedSharding, PartitionSpec
from xpr.backend.stablehlo import Builder, Value
from xpr.backend.stablehlo_module import Module
from xpr.compile.lower import constants, lower_eqns
from xpr.control.activity import is_active
from xpr.control.custom import rules
from xpr.control.custom.rules import CustomFunction, FlatCall
from xpr.control.devices.sharding_rules import SdyShardingRule, rule_text, str_to_sdy_sharding_rule
from xpr.control.groups import consts_after, split_list
from xpr.control.split_results import split_results
from xpr.core.avals import ShapedArray, aval_of, types_of
from xpr.core.interpreter import NamedAxis, Tracer, axes_in_scope
from xpr.core.jaxpr import Jaxpr, eval_jaxpr
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.source import describe_function
from xpr.passes.physical import physical
from xpr.transforms.batch import batch_flat
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction
from xpr.transforms.jvp import push_forward
from xpr.transforms.stage import stage

__all__ = ["custom_partitioning_p"]

_numbers = itertools.count()  # of calls in programs


@dataclass(frozen=True, eq=False, repr=False)
class Partitioning:
    """The user's options for one call: `partition`, the sharding rule, and the structures of arguments and results."""

    partition: Callable[..., Any]
    sharding_rule: Any
    static: tuple[Any, ...]
    call_tree: Any  # the structure of `(args, {})`
    out_tree: Any

    @property
    def in_tree(self) -> Any:
        """The structure of the arguments."""
        return self.call_tree.children()[0]

    def __repr__(self) -> str:
        return f"<partitioning by {describe_function(self.partition)}>"

    def rule_text(self, mesh: Mesh, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> str:
        """The sharding rule as Shardy writes it; empty where there is none."""
        rule, options = self.sharding_rule, {}
        if rule is None:
            return ""
        if callable(rule):
            rule = rule(*self.static, mesh, list(in_avals), list(out_avals))
            if isinstance(rule, (tuple, list)) and len(rule) == 2:
                rule, options = rule
        if not isinstance(rule, SdyShardingRule):
            rule = str_to_sdy_sharding_rule(rule, **options)
        return rule_text(rule, in_avals, out_avals)


class _Partitioner(Partitioner):
    """Asks the user's function for the program of one device, for one call in a program."""

    def __init__(self, partitioning: Partitioning, mesh: Mesh, platform: str):
        self.partitioning, self.mesh, self.platform = partitioning, mesh, platform

    def partition(
        self, arg_shapes: Sequence[Any], arg_shardings: Sequence[Any], out_shapes: Sequence[Any],
        out_shardings: Sequence[Any],
    ) -> tuple[bytes, list[Any], list[Any]]:  # fmt: skip
        user = self.partitioning
        ins, outs = self._structs(arg_shapes, arg_shardings), self._structs(out_shapes, out_shardings)
        mesh, of_one_device, results, arguments = user.partition(
            *user.static, self.mesh, tree.unflatten_sorted(user.in_tree, ins), tree.unflatten(user.out_tree, outs)
        )
        in_hlo = _hlo(user.in_tree, arguments, ins, "arguments")
        out_hlo = _hlo(user.out_tree, results, outs, "results")
        in_tiles, out_tiles = _tiles(arg_shapes, in_hlo), _tiles(out_shapes, out_hlo)
        with axes_in_scope(*[NamedAxis(name, size) for name, size in mesh.shape.items()]):
            closed = stage(FlatFunction(of_one_device, user.call_tree), in_tiles)
        out_avals = [aval.strip_weak_type() for aval in closed.out_avals]
        if out_avals != out_tiles:
            raise ValueError(
                f"Mismatch in result shapes. {describe_function(of_one_device)}, the program of one device, gives "
                f"({types_of(out_avals)}), and by the shardings that {describe_function(user.partition)} returned its "
                f"parts of the results are ({types_of(out_tiles)})."
            )
        module = Module(self.platform)
        module.mesh, module.manual = mesh, dict.fromkeys(mesh.axis_names, mesh)
        jaxpr = physical(closed.jaxpr)
        module.function(
            "main", in_tiles, lambda b, args: lower_eqns(b, jaxpr, [*constants(b, closed), *args]), public=True
        )
        return module.text().encode(), in_hlo, out_hlo

    def _structs(self, shapes: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
        return [
            _Struct(tuple(shape.dimensions()), shape.numpy_dtype(), self._named(hlo, len(shape.dimensions())))
            for shape, hlo in zip(shapes, shardings)
        ]

    def _named(self, hlo: Any, ndim: int) -> NamedSharding:
        """The sharding, with an element of its spec for each axis."""
        sharding = sharding_from_hlo(hlo, self.mesh, ndim)
        return NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec, *[None] * (ndim - len(sharding.spec))))


@dataclass(frozen=True)
class _Struct:
    """A shape and a dtype with a sharding, as the user's functions get them."""

    shape: tuple[int, ...]
    dtype: Any
    sharding: NamedSharding

    @property
    def ndim(self) -> int:
        return len(self.shape)


def _hlo(structure: Any, shardings: Any, structs: Sequence[_Struct], what: str) -> list[Any]:
    leaves = tree.flatten_prefix(shardings, structure, f"the shardings of {what}", verb="custom_partitioning")
    if not all(isinstance(sharding, NamedSharding) for sharding in leaves):
        raise ValueError(f"Custom Partitioning rules must return NamedShardings, and those of {what} are {shardings}.")
    return [hlo_sharding(sharding, struct.ndim) for sharding, struct in zip(leaves, structs)]


def _tiles(shapes: Sequence[Any], shardings: Sequence[Any]) -> list[ShapedArray]:
    tiles = [sharding.tile(shape) for shape, sharding in zip(shapes, shardings)]
    return [ShapedArray(tuple(tile.dimensions()), tile.numpy_dtype()) for tile in tiles]


# -- The primitive


def _lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, call_jaxpr: Jaxpr, num_consts: int,
    partitioning: Partitioning, **_: Any,
) -> list[Value]:  # fmt: skip
    """The function's equations where one device computes all, a shard_map says what each does, or XLA can't ask."""
    if not b.may_be_partitioned or not can_partition(b.platform):
        return lower_eqns(b, call_jaxpr, operands)
    mesh: Any = b.module.mesh
    arguments = split_list(operands, num_consts)[1]
    rule = partitioning.rule_text(mesh, [x.aval for x in arguments], avals)
    partitioner = _Partitioner(partitioning, mesh, b.platform)
    return partitioned_call(b, partitioner, str(next(_numbers)), arguments, avals, rule)


def _function(call_jaxpr: Jaxpr) -> Callable[..., list[Any]]:
    return lambda *xs: eval_jaxpr(call_jaxpr, (), *xs)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """The operation, and the derivative of the function, whose partitioning is the compiler's."""
    outs = custom_partitioning_p.bind(*primals, **params)
    if not any(is_active(tangents)):
        return outs, rules.zeros_for(outs)
    return outs, push_forward(_function(params["call_jaxpr"]), primals, tangents)[1]


def _batch_named(
    axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], *, call_jaxpr: Jaxpr, **_: Any
) -> Any:
    """The rows of the function, whose partitioning is the compiler's."""
    return batch_flat(_function(call_jaxpr), size, values, dims, axis_name)


custom_partitioning_p = register(
    Primitive(
        "custom_partitioning",
        abstract=rules.abstract,
        params=("call_jaxpr", "num_consts", "partitioning", "name"),
        reference=Unsupported("It is evaluated by evaluating its jaxpr."),
        lower=_lower,
        jvp=_jvp,
        transpose=rules.transpose,
        batch=partial(_batch_named, None),
        batch_named=_batch_named,
        evaluate=rules.evaluate,
        split=split_results,
        threaded=rules.threaded(lambda: custom_partitioning_p),
        multiple_results=True,
        regions=rules.regions,
        call=True,
    )
)


class custom_partitioning(CustomFunction):
    """A function that says itself how it is computed on several devices, by `def_partition`.

    In a jitted program on several devices the compiler asks it; elsewhere it is the function. Its derivative and its
    rows (`vmap`) are those of the function, partitioned as the compiler likes; custom_vjp and custom_vmap give others.

    Args:
      fun: takes and returns pytrees of arrays.
      static_argnums: the positions of arguments that are no arrays, which are passed first to the functions of
        `def_partition`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.custom_partitioning import custom_partitioning
    >>> @custom_partitioning
    ... def fft(x):
    ...     return jnp.fft.fft(x)
    >>> def partition(mesh, arg_shapes, result_shape):  # rows are whole
    ...     rows = xpr.sharding.NamedSharding(mesh, xpr.P(arg_shapes[0].sharding.spec[0], None))
    ...     return mesh, jnp.fft.fft, rows, (rows,)
    >>> _ = fft.def_partition(partition, sharding_rule="i j -> i j", need_replication_factors=("j",))
    >>> xpr.jit(fft)(jnp.ones((2, 2))).real
    Array([[2., 0.],
           [2., 0.]], dtype=float32)
    """

    __closes_over__ = ("fun",)

    def __init__(self, fun: Callable[..., Any], static_argnums: int | Sequence[int] = ()):
        super().__init__(fun, static_argnums)
        self.partition: Callable[..., Any] | None = None
        self.sharding_rule: Any = None
        self.lacks_rule = False  # although shardings are to be propagated, in another way

    def def_partition(
        self,
        partition: Callable[..., Any],
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> Callable[..., Any]:
        """Says how the function is partitioned.

        Args:
          partition: `partition(*static, mesh, arg_shapes, result_shape)` gets structs with `shape`, `dtype` and
            `sharding` in the structures of the arguments and of the result, with the shardings that the compiler has
            chosen. It returns `(mesh, program, result shardings, argument shardings)`: `program` is the function of the
            parts of one device, which may communicate along the axes of `mesh`; the shardings are those that it works
            with, to which the compiler moves arguments and from which it moves results.
          infer_sharding_from_operands: taken as in JAX, and not called: the compiler goes by `sharding_rule`.
          propagate_user_sharding: likewise.
          decode_shardings: must be True: shardings name the axes of a mesh.
          sharding_rule: how axes of arguments and results belong together: `"i j, j k -> i k"`, an `SdyShardingRule`,
            or a function `rule(*static, mesh, arg_types, result_types)` that returns one of these, or a pair of it and
            of keyword arguments. None, where no other function is given: results are replicated.
          reduction_factors: see `SdyShardingRule`, as for the others.
          need_replication_factors: likewise.
          permutation_factors: likewise.
          **factor_sizes: likewise.

        Returns:
          `partition`.

        Raises:
          NotImplementedError: `decode_shardings` is False; or, where the function is called, there is no
            `sharding_rule` but another way to propagate shardings.
          ValueError: the rule is none, or factors are named for a rule that is no text.
        """
        if not decode_shardings:
            raise NotImplementedError("custom_partitioning: decode_shardings=False is not there; leave it out.")
        kinds = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
        }
        if isinstance(sharding_rule, str):
            sharding_rule = str_to_sdy_sharding_rule(sharding_rule, **kinds, **factor_sizes)  # type: ignore[arg-type]
        elif any(kinds.values()) or factor_sizes:
            names = ", ".join([*(name for name, factors in kinds.items() if factors), *factor_sizes])
            raise ValueError(
                f"custom_partitioning: {names} go with a rule that is a text. Say them in the rule itself."
            )
        self.partition, self.sharding_rule = partition, sharding_rule
        self.lacks_rule = sharding_rule is None and bool(infer_sharding_from_operands or propagate_user_sharding)
        return partition

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = self.positional(args, kwargs)
        if self.partition is None:
            raise AttributeError(
                f"No partitioning is defined for {describe_function(self.fun)}. Give it one with "
                f"{self.name}.def_partition."
            )
        if rules.is_plain():
            return self.fun(*args)
        if self.lacks_rule:
            raise NotImplementedError(
                f"custom_partitioning: shardings are propagated by Shardy, and the functions of {self.name} for it are "
                "not called. In def_partition, provide sharding_rule to migrate to Shardy, such as 'i j -> i j'."
            )
        call, leaves = FlatCall.of(self, None, args)
        static = tuple([args[i] for i in self.static_positions(len(args))])
        if any(isinstance(x, Tracer) for x in tree.leaves(static)):
            raise TypeError(
                f"custom_partitioning: a static argument of {describe_function(self.fun)} is traced, and the functions "
                "of def_partition need its value. Take its position out of static_argnums."
            )
        n = len(call.constants)
        closed = stage(call, [aval_of(x) for x in (*call.constants, *leaves)])
        partitioning = Partitioning(self.partition, self.sharding_rule, static, call.in_tree, call.out_tree)
        outs = custom_partitioning_p.bind(
            *call.constants, *closed.consts, *leaves,
            call_jaxpr=consts_after(closed, n), num_consts=n + len(closed.consts), partitioning=partitioning,
            name=self.name,
        )  # fmt: skip
        return call.result(outs)
