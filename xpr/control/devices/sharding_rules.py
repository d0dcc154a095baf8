"""Rules that say how the axes of the operands and results of an operation belong together, as Shardy reads them.

An axis is a factor, or a product of several. Factors of the same name are sharded alike: `"i j, j k -> i k"` are the
axes of a product of matrices.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from xpr.backend.partitioners import sharding_rule_text
from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray, types_of

BATCHING = "…"  # in a rule's text: any number of leading axes, `...`
_FACTOR = re.compile(r"[^\W\d_]\w*\Z")
_LEADING = re.compile(rf"{BATCHING}\d*\Z")
_TOKEN = re.compile(rf"{BATCHING}\d*|\w+|[()]|\S")


class CompoundFactor(tuple):
    """Two factors or more whose product is the size of an axis.

    Args:
      *factors: their names, the one that runs slowest first.

    Raises:
      ValueError: there are fewer, or one is no name.

    >>> from xpr.experimental.custom_partitioning import CompoundFactor
    >>> CompoundFactor("i", "j")
    ('i', 'j')
    """

    __slots__ = ()

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError(f"A compound factor is a product of two factors or more, and this one has {factors}.")
        for factor in factors:
            _check_factor(factor)
        return super().__new__(cls, factors)


class ArrayMapping(tuple):
    """For each axis of an array its factor, or a `CompoundFactor`; first may come `BATCHING`, for any leading axes.

    Args:
      *dim_mappings: one for each axis.

    Raises:
      ValueError: one is neither, or `BATCHING` comes later.

    >>> from xpr.experimental.custom_partitioning import BATCHING, ArrayMapping
    >>> ArrayMapping(BATCHING, "i")
    ('…', 'i')
    """

    __slots__ = ()

    def __new__(cls, *dim_mappings: Any) -> ArrayMapping:
        for i, factor in enumerate(dim_mappings):
            if isinstance(factor, str) and _LEADING.match(factor):
                if i:
                    raise ValueError(
                        f"{BATCHING} stands for leading axes, so that it comes first, and it is at position {i} of "
                        f"{dim_mappings}."
                    )
            elif not isinstance(factor, CompoundFactor):
                _check_factor(factor)
        return super().__new__(cls, dim_mappings)


def _check_factor(factor: Any) -> None:
    if not isinstance(factor, str) or not _FACTOR.match(factor):
        raise ValueError(f"The name of a factor is a letter, then letters, digits and _, and this one is {factor!r}.")


_KINDS = ("reduction_factors", "need_replication_factors", "permutation_factors")


class SdyShardingRule:
    """How the axes of operands and results belong together, by factors.

    Args:
      operand_mappings: an `ArrayMapping`, or a tuple as one takes it, for each operand.
      result_mappings: likewise for each result.
      reduction_factors: those that are summed over: where they are sharded, results are sums over devices.
      need_replication_factors: those along which arrays are not to be sharded.
      permutation_factors: those that take communication between neighbours where they are sharded.
      **factor_sizes: the sizes of factors that occur in compound factors alone.

    Raises:
      ValueError: a factor is not used, or is of several kinds, or its size is missing, or given and known.

    >>> from xpr.experimental.custom_partitioning import SdyShardingRule
    >>> SdyShardingRule((("i", "j"), ("j", "k")), (("i", "k"),), reduction_factors=("j",))
    SdyShardingRule((('i', 'j'), ('j', 'k')), (('i', 'k'),), reduction_factors=('j',))
    """

    def __init__(
        self,
        operand_mappings: Sequence[Any],
        result_mappings: Sequence[Any],
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ):
        self.operand_mappings, self.result_mappings = (
            tuple([ArrayMapping(*mapping) for mapping in mappings]) for mappings in (operand_mappings, result_mappings)
        )
        self.reduction_factors, self.need_replication_factors = reduction_factors, need_replication_factors
        self.permutation_factors, self.factor_sizes = permutation_factors, factor_sizes
        self._check_sizes()
        self._check_kinds()

    @property
    def mappings(self) -> tuple[ArrayMapping, ...]:
        """The mappings of operands, then those of results."""
        return (*self.operand_mappings, *self.result_mappings)

    def _check_sizes(self) -> None:
        whole = {factor for mapping in self.mappings for factor in mapping if isinstance(factor, str)}
        compounds = [axis for mapping in self.mappings for axis in mapping if not isinstance(axis, str)]
        parts = {factor for compound in compounds for factor in compound}
        for factor in self.factor_sizes:
            if factor not in whole | parts:
                raise ValueError(f"Factor {factor} is not used by an axis, and its size is given. Leave it out.")
            if factor in whole:
                raise ValueError(f"Factor {factor} is a whole axis, whose size is known: do not give it.")
        for factor in sorted(parts - whole - set(self.factor_sizes)):
            raise ValueError(f"Factor {factor} occurs in compound factors alone: its size is needed, as {factor}=2.")

    def _check_kinds(self) -> None:
        axes = [[axis] if isinstance(axis, str) else axis for mapping in self.mappings for axis in mapping]
        used = {factor for factors_of_axis in axes for factor in factors_of_axis}
        seen: dict[str, str] = {}
        for kind in _KINDS:
            factors = getattr(self, kind)
            if not isinstance(factors, tuple):
                raise ValueError(f"{kind} must be a tuple of factors, and is {factors!r}.")
            for factor in factors:
                if factor not in used:
                    raise ValueError(f"Factor {factor} in {kind} is not used by an axis. Leave it out.")
                if factor in seen:
                    raise ValueError(
                        f"Factor {factor} is in {seen[factor]} and in {kind}: it can be of one kind alone."
                    )
                seen[factor] = kind

    def __repr__(self) -> str:
        more = [f"{kind}={getattr(self, kind)}" for kind in _KINDS if getattr(self, kind)]
        more += [f"{name}={size}" for name, size in self.factor_sizes.items()]
        return f"SdyShardingRule({', '.join([str(self.operand_mappings), str(self.result_mappings), *more])})"


def str_to_sdy_sharding_rule(
    rule: str,
    *,
    reduction_factors: tuple[str, ...] = (),
    need_replication_factors: tuple[str, ...] = (),
    permutation_factors: tuple[str, ...] = (),
    **factor_sizes: int,
) -> SdyShardingRule:
    """The rule that a text says: for each axis a name, arrays set apart by commas, `...` for any leading axes.

    Args:
      rule: as `"... i j, ... j k -> ... i k"`; `(i j)` is an axis whose size is a product.
      reduction_factors: see `SdyShardingRule`, as for the others.
      need_replication_factors: likewise.
      permutation_factors: likewise.
      **factor_sizes: likewise.

    Returns:
      An `SdyShardingRule`.

    Raises:
      TypeError: `rule` is no text.
      ValueError: the text says no rule.

    >>> from xpr.control.devices.sharding_rules import str_to_sdy_sharding_rule
    >>> str_to_sdy_sharding_rule("... (i j) -> ... j", i=2)
    SdyShardingRule((('…', ('i', 'j')),), (('…', 'j'),), i=2)
    """
    if not isinstance(rule, str):
        raise TypeError(f"A sharding rule is a text or an SdyShardingRule, and is {rule!r}.")
    sides = rule.replace("...", BATCHING).split("->")
    if len(sides) != 2:
        raise ValueError(f"There is no -> in rule, or several: {rule!r}. It is written 'i j -> j i'.")
    operands, results = ([_mapping(text, rule) for text in side.split(",")] for side in sides)
    return SdyShardingRule(
        operands, results, reduction_factors=reduction_factors, need_replication_factors=need_replication_factors,
        permutation_factors=permutation_factors, **factor_sizes,
    )  # fmt: skip


def _mapping(text: str, rule: str) -> ArrayMapping:
    factors: list[Any] = []
    inner: list[str] | None = None  # the factors in open brackets
    for token in _TOKEN.findall(text):
        if token == "(" and inner is None:
            inner = []
        elif token == ")" and inner is not None:
            factors.append(CompoundFactor(*inner))
            inner = None
        elif token in "()":
            raise ValueError(f"Brackets are not balanced in rule: {rule!r}")
        elif inner is not None:
            inner.append(token)
        else:
            factors.append(token)
    if inner is not None:
        raise ValueError(f"Brackets are not balanced in rule: {rule!r}")
    return ArrayMapping(*factors)


def rule_text(rule: SdyShardingRule, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> str:
    """The attribute that says the rule to Shardy, for operands and results of these types.

    Raises:
      ValueError: there are more or fewer of them than the rule has, or they have other axes or sizes.
    """
    for what, mappings, avals in (
        ("operands", rule.operand_mappings, in_avals),
        ("results", rule.result_mappings, out_avals),
    ):
        if len(mappings) != len(avals):
            raise ValueError(
                f"Sharding rule for {len(mappings)} {what}, of an operation with {len(avals)}: {rule!r} for "
                f"({types_of(avals)})."
            )
    arrays = [_axes(mapping, aval) for mapping, aval in zip(rule.mappings, (*in_avals, *out_avals))]
    sizes = _sizes(rule, arrays)
    kinds = {
        "reduction": rule.reduction_factors,
        "need_replication": rule.need_replication_factors,
        "permutation": rule.permutation_factors,
    }
    factors = [[of_axis for of_axis, _ in axes] for axes in arrays]
    ins, outs = split_list(factors, len(in_avals))
    return sharding_rule_text(ins, outs, sizes, kinds)


def _axes(mapping: ArrayMapping, aval: ShapedArray) -> list[tuple[tuple[str, ...], int]]:
    """The factors and the size of each axis of an array; leading axes have factors of their own."""
    leading = str(mapping[0]) if mapping and isinstance(mapping[0], str) and _LEADING.match(mapping[0]) else ""
    named = mapping[1:] if leading else mapping
    count = aval.ndim - len(named)
    if count < 0 or (count and not leading):
        raise ValueError(
            f"Sharding rule has rank {len(named)} for an array of type {aval.str_short()}, and {mapping} are the "
            "factors of its axes."
        )
    group = leading.removeprefix(BATCHING) or "0"
    factors = [(f"{BATCHING}{group}.{axis}",) for axis in range(count)]
    factors += [(axis,) if isinstance(axis, str) else tuple(axis) for axis in named]
    return list(zip(factors, aval.shape))


def _sizes(rule: SdyShardingRule, arrays: Sequence[list[tuple[tuple[str, ...], int]]]) -> dict[str, int]:
    """The size of each factor, in the order in which they occur: the smallest of the axes that are one."""
    sizes: dict[str, int] = {}
    for factors, size in _all_axes(arrays):
        for factor in factors:
            known = sizes.get(factor, 0)
            sizes[factor] = rule.factor_sizes.get(factor, known) if len(factors) > 1 else min(known or size, size)
            if len(factors) == 1 and factor.startswith(BATCHING) and known not in (0, size):
                raise ValueError(f"Leading axes that belong together have two sizes: {known} and {size}.")
    for factors, size in _all_axes(arrays):
        if len(factors) > 1 and math.prod(sizes[factor] for factor in factors) != size:
            product = " * ".join(f"{factor}={sizes[factor]}" for factor in factors)
            raise ValueError(f"An axis of size {size} doesn't match its compound factors: {product}.")
    return sizes


def _all_axes(arrays: Sequence[list[tuple[tuple[str, ...], int]]]) -> Iterator[tuple[tuple[str, ...], int]]:
    return (axis for axes in arrays for axis in axes)
