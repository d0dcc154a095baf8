"""Operations whose programs for one device are written in Python, where XLA asks for them.

Such an operation is a custom call. Shardy chooses shardings by its sharding rule; XLA's partitioner then calls its
`Partitioner` with these, and inlines the program that it gives.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from xpr.backend import gpu_plugin, runtime
from xpr.backend.mlir_text import quoted
from xpr.backend.stablehlo import NOT_INLINED, Builder, Value
from xpr.core.avals import ShapedArray

_TARGET = "XprPartitioning"  # one of its own: jax, in the same process, has "CustomSPMDPartitioning"


class Partitioner:
    """Gives XLA the program of one device, for operations that name it in a program; their modules keep it alive."""

    def partition(
        self, arg_shapes: Sequence[Any], arg_shardings: Sequence[Any], out_shapes: Sequence[Any],
        out_shardings: Sequence[Any],
    ) -> tuple[bytes, list[Any], list[Any]]:  # fmt: skip
        """The text of the program of one device, and the HLO shardings of its operands and of its results.

        Args:
          arg_shapes, out_shapes: XLA's shapes of whole operands and results.
          arg_shardings, out_shardings: the HLO shardings that the compiler has chosen.
        """
        raise NotImplementedError


def partitioned_call(
    b: Builder, partitioner: Partitioner, key: str, operands: Sequence[Value], results: Sequence[ShapedArray],
    rule: str, inline: bool = True,
) -> list[Value]:  # fmt: skip
    """An operation that the partitioner partitions.

    Args:
      key: names the partitioner in the text; those with the same key do the same.
      rule: the sharding rule as an attribute, or empty: results are replicated.
      inline: False keeps calls in the program of one device apart, fusion barriers among them; True inlines them all:
        XLA gives its operations the frontend attributes of this one.
    """
    _register(b.platform)
    b.module.kept.append(_partitioners.setdefault(key.encode(), partitioner))
    properties = f'call_target_name = "{_TARGET}", api_version = 2 : i32, has_side_effect = false'
    attributes = ", ".join([each for each in (rule, "" if inline else NOT_INLINED) if each])
    return b.ops(
        "stablehlo.custom_call", operands, results, f"{properties}, backend_config = {quoted(key)}",
        attributes=attributes,
    )  # fmt: skip


def sharding_rule_text(
    operands: Sequence[Sequence[Sequence[Any]]], results: Sequence[Sequence[Sequence[Any]]], sizes: Mapping[Any, int],
    kinds: Mapping[str, Collection[Any]],
) -> str:  # fmt: skip
    """The sharding rule of an operation: which axes are partitioned together, as the attribute that Shardy reads.

    Args:
      operands, results: for each axis of each array its factors, the one that runs slowest first.
      sizes: those of the factors, in the order of their letters.
      kinds: by "reduction", "need_replication" and "permutation" the factors that are so.
    """
    symbols = {factor: chr(ord("i") + i) if i < 18 else f"z_{i - 17}" for i, factor in enumerate(sizes)}

    def text(arrays: Sequence[Sequence[Sequence[Any]]]) -> str:
        return ", ".join(f"[{', '.join(''.join(map(symbols.__getitem__, axis)) for axis in axes)}]" for axes in arrays)

    listed = ", ".join(f"{symbols[factor]}={size}" for factor, size in sizes.items())
    named = [(kind, ", ".join(symbols[factor] for factor in sizes if factor in of)) for kind, of in kinds.items()]
    more = "".join(f" {kind}={{{texts}}}" for kind, texts in named if texts)
    return (
        f"sdy.sharding_rule = #sdy.op_sharding_rule<({text(operands)})->({text(results)}) {{{listed}}}{more}, custom>"
    )


# -- What XLA calls

_partitioners: weakref.WeakValueDictionary[bytes, Partitioner] = weakref.WeakValueDictionary()


def can_partition(platform: str) -> bool:
    """Whether XLA can ask for programs of one device: on CUDA by the plugin, which need not be loaded for lowering."""
    return platform == "cpu" or gpu_plugin.api is not None


@functools.cache
def _register(platform: str) -> None:
    """Makes the functions known to XLA, once."""
    runtime.xc.register_custom_call_partitioner(
        _TARGET, _users_sharding, _partition, _inferred_sharding, can_side_effecting_have_replicated_sharding=True,
        c_api=None if platform == "cpu" else gpu_plugin.api,
    )  # fmt: skip


def _partition(arg_shapes: Any, arg_shardings: Any, result_shape: Any, result_sharding: Any, key: bytes) -> Any:
    several = result_shape.is_tuple()
    shapes = result_shape.tuple_shapes() if several else [result_shape]
    shardings = result_sharding.tuple_elements() if several else [result_sharding]
    text, arguments, results = _partitioners[key].partition(arg_shapes, arg_shardings, shapes, shardings)
    together = runtime.xc.HloSharding.tuple_sharding(result_shape, results) if several else results[0]
    return text, arguments, together


def _users_sharding(sharding: Any, shape: Any, key: bytes) -> Any:
    """Shardy has decided: the sharding of a reader says nothing more."""
    return sharding


def _inferred_sharding(arg_shapes: Any, arg_shardings: Any, result_shape: Any, key: bytes) -> Any:
    """Shardy has decided, where there is a rule; without one results are replicated."""
    if result_shape.is_tuple():
        parts = [runtime.xc.HloSharding.replicate() for _ in result_shape.tuple_shapes()]
        return runtime.xc.HloSharding.tuple_sharding(result_shape, parts)
    return runtime.xc.HloSharding.replicate()
