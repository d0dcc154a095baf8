"""A builder of StableHLO text.

Lowering rules write operations with `Builder.op`, always in MLIR's generic form, so that one method writes them all:

    %3 = "stablehlo.add"(%1, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>

A `Value` is an SSA name with its type. A `Builder` writes the body of a function of a `Module`, or of a region inside
one. Nothing here needs a compiler.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr import dtypes
from xpr.backend.callbacks import TARGETS, TARGETS_OF_PARTS, Callback, HostFunction
from xpr.backend.dimension_arithmetic import SIZE, compare, polynomial
from xpr.backend.mlir_text import (
    NUMBER_AS_TOKEN,
    TOKEN,
    attribute_name,
    axis_text,
    dense,
    int_array,
    int_list,
    quoted,
    tensor_type,
)
from xpr.backend.program_devices import Inspection
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec
from xpr.config import settings
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import is_symbolic_dim, max_dim

if TYPE_CHECKING:
    from xpr.backend.stablehlo_module import Module

_METADATA = " {mhlo.frontend_attributes = {"
_ATTRIBUTES = re.compile(r'([\w$.]+|"[^"]*") = ("[^"]*")')  # of metadata, with their texts


def _metadata_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Value:
    """An SSA value: its name, `%7`, and its type."""

    __slots__ = ("name", "aval")

    def __init__(self, name: str, aval: ShapedArray):
        self.name, self.aval = name, aval

    def __repr__(self) -> str:
        return f"{self.name} : {tensor_type(self.aval)}"


# XLA:CPU hands sums of 4096 elements and more to a library, YNNPACK, together with the elementwise operations before
# them. Its maxima and minima leave out a nan in their first operand (jaxlib 0.10.2). It has no clamp, so a maximum
# written as a clamp whose upper bound is infinite is left to XLA, which has nan in the result where there is one.
_OTHER_BOUND: dict[str, Callable[[np.dtype], Any]] = {
    "stablehlo.maximum": dtypes.greatest, "stablehlo.minimum": dtypes.least
}  # fmt: skip

# XLA:CPU ends the process where it joins or pads arrays of these (jaxlib 0.10.2), and multiplies none.
_JOINS = frozenset({"stablehlo.concatenate", "stablehlo.pad"})
OF_TWO_BITS = {dtypes.int2: dtypes.int8, dtypes.uint2: dtypes.uint8}

# Operations that take the shape of their result, where it is symbolic.
_WITH_SHAPE = {
    "stablehlo.broadcast_in_dim": "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.reshape": "stablehlo.dynamic_reshape",
    "stablehlo.iota": "stablehlo.dynamic_iota",
}
_INTEGERS = re.compile(r"array<i64: ([-\d, ]+)>")

# Operations whose results from floats XLA never makes one number that is broadcast, unless an operand is one: it does
# not simplify x * 0.
_KEEPS_VARIED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs", "add", "broadcast_in_dim", "cbrt", "clamp", "compare", "convert", "cosine", "divide", "exponential",
        "exponential_minus_one", "log", "log_plus_one", "logistic", "maximum", "minimum", "multiply", "negate",
        "reduce", "reshape", "rsqrt", "sine", "sqrt", "subtract", "tanh", "transpose",
    )
)  # fmt: skip

# Attributes of calls.
NOT_INLINED = 'mhlo.frontend_attributes = {inlineable = "false"}'
_ONE_KERNEL = 'mhlo.frontend_attributes = {inlineable = "false", xla_cpu_small_call = "true"}'


class Builder:
    """Writes the operations of one function or region, in order.

    `token` is what the next ordered effect has to wait for, where there has been one in this function or region.
    `literals` are the constants of a jaxpr's literals that were written here. `varied` are arrays that the compiler
    can't make one number that is broadcast: the arguments of the program, where this is its main function, and what is
    computed from them element by element. `runs_once`: it is known to be in no loop, but for those of few steps.
    """

    __slots__ = (
        "_marked", "_sizes", "_written", "definitions", "dimensions", "draws", "finished", "lines", "literals",
        "locations", "metadata", "module", "runs_once", "token", "varied",
    )  # fmt: skip

    def __init__(self, module: Module, token: Value | None = None):
        self.module, self.token = module, token
        self.varied: set[Value] = set()
        self.draws = False  # whether what is written draws random numbers
        self.runs_once = False
        self.dimensions: dict[str, Value] = {}  # the values of dimension variables
        self.literals: dict[tuple[ShapedArray, str], Value] = {}
        # The name, operands and properties of the operations whose results `op` wrote here.
        self.definitions: dict[Value, tuple[str, Sequence[Value], str]] = {}
        self.lines: list[str] = []
        self.finished = 0  # how many lines are of equations that are lowered, and have their metadata
        self.locations: dict[int, str] = {}  # of lines, in a text with locations
        self.metadata: Any = None  # of the equation that is lowered; None for none
        self._marked: dict[str, tuple[Any, int]] = {}  # metadata and lines of the values that `op` wrote with some
        self._sizes: dict[Any, Value] = {}  # dimensions that were computed here
        # The values that `op` wrote here, by the text of the operation, and its metadata if it has some.
        self._written: dict[Any, Value] = {}

    @property
    def platform(self) -> str:
        return self.module.platform

    @property
    def may_be_partitioned(self) -> bool:
        """Whether the compiler partitions arrays over devices: not in a region that says what each of them does."""
        mesh, manual = self.module.mesh, self.module.manual
        return mesh is not None and math.prod([each.shape[name] for name, each in manual.items()]) < mesh.size

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        result: ShapedArray,
        properties: str = "",
        regions: Sequence[str] = (),
    ) -> Value:
        """One operation with one result, a function of its operands: what was written before is not written again.

        Args:
          name: with its dialect, `stablehlo.add`.
          operands: values of this builder, or of the one around it.
          result: the type of the result.
          properties: `key = value, ...` as MLIR writes attributes.
          regions: texts made by `region`.

        The greater or lesser of two arrays is written as a clamp for CPU, see `_OTHER_BOUND`, and integers of 2 bits
        are joined and padded as such of 8.
        """
        if name in _OTHER_BOUND and result.ndim and result.dtype in dtypes.FLOATS and self.platform == "cpu":
            name, operands = "stablehlo.clamp", self._bounds(name, operands, result)
        if name in _JOINS and result.dtype in OF_TWO_BITS and self.platform == "cpu":
            wide = [self.convert(x, OF_TWO_BITS[result.dtype]) for x in operands]
            joined = self.op(name, wide, result.update(dtype=OF_TWO_BITS[result.dtype]), properties)
            return self.convert(joined, result.dtype)
        if result.is_symbolic and name in _WITH_SHAPE:
            name, operands = _WITH_SHAPE[name], [*operands, self.shape(result.shape)]
        types = ", ".join([tensor_type(v.aval) for v in operands])
        names = ", ".join([v.name for v in operands])
        middle = f" <{{{properties}}}>" if properties else ""
        if regions:
            middle += f" ({', '.join(regions)})"
        text = f'"{name}"({names}){middle} : ({types}) -> {tensor_type(result)}'
        key = text if self.metadata is None else (text, self.metadata)
        value = self._written.get(key)
        if value is None:
            value = self._written[key] = Value(self.module.fresh(), result)
            if self.metadata is not None:
                self._marked[value.name] = (self.metadata, len(self.lines))
            self.lines.append(f"{value.name} = {text}")
            self.definitions[value] = name, operands, properties
            self.module.work.add_operation(name, operands, result)
            if self.varied and self._makes_varied(name, operands, result):
                self.varied.add(value)
        return value

    def unshared_broadcast(self, x: Value) -> Value:
        """The array as a result of its own, if it is broadcast from one that isn't constant; else the array itself.

        XLA multiplies by the inverses of the fewer numbers that a divisor is broadcast from, if nothing else uses it.
        It joins equal broadcasts before, but for those with axes of one element.
        """
        if (broadcast := self.broadcast_source(x)) is None:
            return x
        source, axes = broadcast
        if self.definitions.get(source, ("",))[0] == "stablehlo.constant":
            return x
        shape = [1] * x.aval.ndim
        for axis, size in zip(axes, source.aval.shape, strict=True):
            shape[axis] = size
        full_rank = self.reshape(source, shape)
        dimensions = f"broadcast_dimensions = {int_array(range(x.aval.ndim))}"
        copy = self.ops("stablehlo.broadcast_in_dim", [full_rank], [x.aval], dimensions)[0]
        if x in self.varied:
            self.varied.add(copy)
        return copy

    def broadcast_source(self, x: Value) -> tuple[Value, list[int]] | None:
        """The array that `x` is a broadcast of, and where its axes go; None if it is no broadcast."""
        name, operands, properties = self.definitions.get(x, ("", [], ""))
        if name != "stablehlo.broadcast_in_dim":
            return None
        return operands[0], [int(axis) for numbers in _INTEGERS.findall(properties) for axis in numbers.split(", ")]

    def element_of(self, x: Value) -> tuple[Value, int]:
        """The array that `x`, of one element, is a slice of, and the position of the element in row-major order.

        If it was not sliced here, that is `x` itself.
        """
        position = 0
        while (definition := self.definitions.get(x)) and definition[0] in ("stablehlo.reshape", "stablehlo.slice"):
            name, (source,), properties = definition
            if name == "stablehlo.slice":
                starts, _, strides = (list(map(int, each.split(", "))) for each in _INTEGERS.findall(properties))
                index = np.unravel_index(position, x.aval.shape)
                index_in_source = [start + stride * int(i) for start, stride, i in zip(starts, strides, index)]
                position = int(np.ravel_multi_index(index_in_source, source.aval.shape))
            x = source
        return x, position

    def _makes_varied(self, name: str, operands: Sequence[Value], result: ShapedArray) -> bool:
        """Whether the result of an operation is one of `varied`."""
        varied = self.varied
        if varied.isdisjoint(operands) or result.is_symbolic or result.size == 1:
            return False
        if name in _KEEPS_VARIED:
            is_repeated = len(operands) > 1 and len(operands) != len(set(operands))
            return operands[0].aval.dtype in dtypes.FLOATS and not is_repeated
        if name == "stablehlo.dot_general":
            return varied.issuperset(operands)
        return name == "stablehlo.select" and operands[0] in varied and not varied.isdisjoint(operands[1:])

    def are_varied(self, operands: Sequence[Value]) -> bool:
        """Whether all operands are varied, but for integers and single numbers, and there are any others."""
        arrays = [x for x in operands if x.aval.dtype in dtypes.FLOATS and not x.aval.is_symbolic and x.aval.size > 1]
        return bool(arrays) and all(x in self.varied for x in arrays)

    def _bounds(self, name: str, operands: Sequence[Value], result: ShapedArray) -> list[Value]:
        """The operands of a clamp that gives the greater, or lesser, of two arrays."""
        x, y = operands
        bound = self.constant(_OTHER_BOUND[name](result.dtype), result.update(shape=()))
        return [y, x, bound] if name == "stablehlo.maximum" else [bound, x, y]

    def ops(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[ShapedArray],
        properties: str = "",
        regions: Sequence[str] = (),
        attributes: str = "",
    ) -> list[Value]:
        """One operation with any number of results; `attributes` are the discardable ones, `{key = value}`."""
        if name == "stablehlo.while":
            self.module.work.has_loops = self.module.work.has_hot_loops = True
        elif name in ("stablehlo.reduce", "stablehlo.reduce_window"):
            self.module.work.add_bytes(name, operands[0].aval)
        out = self.module.fresh()
        types = ", ".join(tensor_type(v.aval) for v in operands)
        names = ", ".join(v.name for v in operands)
        middle = f" <{{{properties}}}>" if properties else ""
        if regions:
            middle += f" ({', '.join(regions)})"
        if attributes:
            middle += f" {{{attributes}}}"
        outs = ", ".join(map(tensor_type, results))
        binder = f"{out}:{len(results)} = " if results else ""
        self.lines.append(f'{binder}"{name}"({names}){middle} : ({types}) -> ({outs})')
        return [Value(f"{out}#{i}", aval) for i, aval in enumerate(results)]

    def locate(self, start: int) -> None:
        """Gives the lines from `start` on that have no location the one of the operation that is lowered."""
        for i in range(start, len(self.lines)):
            self.locations.setdefault(i, self.module.location)

    def located(self, *end: str) -> str:
        """The lines written here and those of `end`, with their locations in a text that has some."""
        lines, around = [*self.lines, *end], self.module.location
        return "\n".join([line + self.locations.get(i, around) for i, line in enumerate(lines)] if around else lines)

    def annotate_results(self, values: Sequence[Value], start: int) -> None:
        """Gives operations the metadata of the equation that is lowered: those that compute its results, of which lines
        before `start` may be of other equations.
        """
        for value in values if self.metadata else ():
            metadata, line = self._marked.get(value.name, (None, 0))
            self.annotate(value, dict(self.metadata), line if metadata == self.metadata else start)

    def annotate(self, value: Value, metadata: dict[str, Any], start: int = 0) -> None:
        """Gives the operation that computes a value attributes, which XLA passes on; those of arguments have none.

        Metadata that the operation has already stays, but for that of the same names. Lines before `start` are of other
        operations.
        """
        binder = f"{value.name.partition('#')[0]}"
        for i, line in enumerate(self.lines[start:], start):
            if line.startswith((f"{binder} = ", f"{binder}:")):
                before, end = line.rsplit(" : (", 1)
                known = ""
                if before.endswith("}}"):
                    before, _, known = before.rpartition(_METADATA)
                texts = dict(_ATTRIBUTES.findall(known))
                texts |= {attribute_name(name): quoted(_metadata_text(each)) for name, each in metadata.items()}
                pairs = ", ".join(f"{name} = {text}" for name, text in sorted(texts.items()))
                self.lines[i] = f"{before}{_METADATA}{pairs}}}}} : ({end}"
                return

    def constant(self, value: Any, aval: ShapedArray) -> Value:
        """A constant of the given type; a scalar `value` fills its shape."""
        if aval.is_symbolic:
            return self.broadcast(self.constant(value, aval.update(shape=())), aval.shape)
        text = f"value = {dense(value, aval.dtype)} : {tensor_type(aval)}"
        written = self.op("stablehlo.constant", (), aval, text)
        self.module.constants[written.name] = value
        return written

    def known_number(self, x: Value) -> Any:
        """The number that all elements of an array are, if it is a constant; else None."""
        name, operands, _ = self.definitions.get(x, ("", (), ""))
        source = operands[0] if name == "stablehlo.broadcast_in_dim" else x
        value = self.module.constants.get(source.name)
        return None if value is None or np.ndim(value) else np.asarray(value).item()

    # -- Symbolic dimensions

    def dimension(self, size: Any) -> Value:
        """A dimension as an i32 scalar, computed from the dimension variables."""
        if not is_symbolic_dim(size):
            return self.constant(int(size), SIZE)
        known = self._sizes.get(size)
        if known is None:
            known = self._sizes[size] = polynomial(self, size)
        return known

    def shape(self, shape: Sequence[Any]) -> Value:
        """A shape as a vector of i32."""
        if not shape:
            return self.constant(np.zeros(0, np.int32), SIZE.update(shape=(0,)))
        return self._vector(list(map(self.dimension, shape)))

    def pairs(self, pairs: Sequence[Sequence[Any]]) -> Value:
        """Pairs of dimensions as a matrix of i32, one in each row."""
        rank = len(pairs)
        columns = [self.reshape(self.shape(each), (rank, 1)) for each in zip(*pairs)]
        aval = SIZE.update(shape=(rank, 2))
        return self.op("stablehlo.concatenate", columns, aval, "dimension = 1 : i64")

    def compare_sizes(self, x: Any, direction: str, y: Any) -> Value:
        """Whether two dimensions compare so: EQ or GE."""
        return compare(self, self.dimension(x), direction, self.dimension(y))

    def size(self, n: Any, aval: ShapedArray) -> Value:
        """A dimension that fills an array of integers."""
        if not is_symbolic_dim(n):
            return self.constant(n, aval)
        return self.broadcast(self.convert(self.dimension(n), aval.dtype), aval.shape)

    def dimension_size(self, x: Value, axis: int) -> Value:
        """The size of an axis."""
        return self.op("stablehlo.get_dimension_size", [x], SIZE, f"dimension = {axis} : i64")

    def assert_shape(self, holds: Value, message: str, numbers: Sequence[Value]) -> None:
        """An assertion that is checked when shapes are known; `{0}` in the message is the first number."""
        self.ops(
            "stablehlo.custom_call", [holds, *numbers], [],
            'call_target_name = "shape_assertion", has_side_effect = true, api_version = 2 : i32',
            attributes=f"error_message = {quoted(message)}",
        )  # fmt: skip

    # -- Arrays

    def broadcast(self, operand: Value, shape: Sequence[int], dimensions: Sequence[int] = ()) -> Value:
        """`broadcast_in_dim`; `dimensions[i]` is where the operand's axis i goes."""
        aval = operand.aval.update(shape=tuple(shape))
        if aval is operand.aval:
            return operand
        return self.op(
            "stablehlo.broadcast_in_dim", (operand,), aval, f"broadcast_dimensions = {int_array(dimensions)}"
        )

    def convert(self, operand: Value, dtype: np.dtype) -> Value:
        """The operand with the dtype. Bools become floats through integers, unless `exact_masks` is off: XLA takes the
        product of a float and a converted bool for a choice between the float and 0, which loses nan and 0 times inf.
        """
        if operand.aval.dtype == dtype:
            return operand
        if operand.aval.dtype == dtypes.bool_ and dtype in dtypes.INEXACT and settings.exact_masks:
            operand = self.op("stablehlo.convert", (operand,), operand.aval.update(dtype=dtypes.uint8))
        return self.op("stablehlo.convert", (operand,), operand.aval.update(dtype=dtype))

    def reshape(self, operand: Value, shape: Sequence[int]) -> Value:
        return self.op("stablehlo.reshape", (operand,), operand.aval.update(shape=tuple(shape)))

    def transpose(self, operand: Value, permutation: Sequence[int]) -> Value:
        shape = tuple(operand.aval.shape[i] for i in permutation)
        if not self.module.is_polymorphic and operand.aval.size > self.module.work.transposed:
            kept = [i for i in permutation if operand.aval.shape[i] != 1]
            if kept != sorted(kept):
                self.module.work.transposed = operand.aval.size
        return self.op(
            "stablehlo.transpose",
            (operand,),
            operand.aval.update(shape=shape),
            f"permutation = {int_array(permutation)}",
        )

    def region(
        self,
        in_avals: Sequence[ShapedArray],
        body: Callable[[Builder, list[Value]], list[Value]],
        end: str = "stablehlo.return",
    ) -> str:
        """A region for `op(regions=[...])`, whose body is written by `body(builder, arguments) -> results`."""
        inner = Builder(self.module)
        inner.dimensions, inner.draws = self.dimensions, self.draws
        arguments = [Value(self.module.fresh().replace("%", "%r"), aval) for aval in in_avals]
        results = body(inner, arguments)
        around = self.module.location
        header = ", ".join(f"{v.name}: {tensor_type(v.aval)}{around}" for v in arguments)
        types = ", ".join(tensor_type(v.aval) for v in results)
        block = f"^bb0({header}):\n" if arguments else "^bb0:\n"
        lines = inner.located(f'"{end}"({", ".join(v.name for v in results)}) : ({types}) -> ()')
        return f"{{\n{block}{lines}\n}}"

    @property
    def token_type(self) -> Any:
        """The type of tokens: on several devices a number, since manual regions take no tokens."""
        mesh = self.module.mesh
        return TOKEN if mesh is None or mesh.size == 1 else NUMBER_AS_TOKEN

    def take_token(self) -> Value:
        """The token of the last ordered effect; a new one where there has been none."""
        if self.token is None:
            kind = self.token_type
            self.token = self.op("stablehlo.create_token", (), TOKEN) if kind is TOKEN else self.constant(0, kind)
        return self.token

    def while_loop(
        self,
        condition: Callable[[Builder, list[Value]], Value],
        step: Callable[[Builder, list[Value]], list[Value]],
        carried: Sequence[Value],
        *,
        ordered: bool = False,
    ) -> list[Value]:
        """A loop that takes steps from `carried` while `condition` holds; `ordered`: its steps have effects.

        Each function writes into its region, and may use values from before the loop.
        """
        tokens = [self.take_token()] if ordered else []
        types = [v.aval for v in (*tokens, *carried)]
        n = len(tokens)

        def write_condition(inner: Builder, state: list[Value]) -> list[Value]:
            return [condition(inner, state[n:])]

        def write_step(inner: Builder, state: list[Value]) -> list[Value]:
            inner.token = state[0] if ordered else None
            results = step(inner, state[n:])
            return [inner.take_token(), *results] if ordered else results

        regions = [self.region(types, write_condition), self.region(types, write_step)]
        results = self.ops("stablehlo.while", [*tokens, *carried], types, regions=regions)
        if ordered:
            self.token = results[0]
        return results[n:]

    def case(
        self,
        index: Value,
        branches: Sequence[Callable[[Builder], list[Value]]],
        results: Sequence[ShapedArray],
        *,
        ordered: bool = False,
    ) -> list[Value]:
        """The results of the branch numbered `index` (an i32 scalar); of the last one where there is no such branch.

        Each branch writes into its region, and may use values from before.
        """
        token = self.take_token() if ordered else None

        def region_of(branch: Callable[[Builder], list[Value]]) -> str:
            def write(inner: Builder, _: list[Value]) -> list[Value]:
                inner.token, inner.runs_once = token, self.runs_once
                outs = branch(inner)
                return [inner.take_token(), *outs] if ordered else outs

            return self.region([], write)

        types = [self.token_type, *results] if ordered else list(results)
        outs = self.ops("stablehlo.case", [index], types, regions=[region_of(branch) for branch in branches])
        if ordered:
            self.token = outs[0]
        return outs[1:] if ordered else outs

    def slice(
        self, x: Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
    ) -> Value:
        """The elements of `x` from `starts` to before `limits`, every `strides`-th one along each axis.

        Of a single element the stride does not matter, but XLA can't partition an axis that has one.
        """
        steps = [1] * x.aval.ndim if strides is None else list(strides)
        if x.aval.is_symbolic or any(map(is_symbolic_dim, (*starts, *limits))):
            sizes = [-(-(limit - start) // step) for start, limit, step in zip(starts, limits, steps)]
            return self.dynamic_slice(
                x, list(map(self.dimension, starts)), list(map(self.dimension, limits)), steps, sizes
            )
        shape = tuple([-(-(limit - start) // step) for start, limit, step in zip(starts, limits, steps)])
        steps = [1 if n == 1 else step for n, step in zip(shape, steps)]
        limits = [start + 1 if n == 1 else limit for start, limit, n in zip(starts, limits, shape)]
        properties = (
            f"start_indices = {int_array(starts)}, limit_indices = {int_array(limits)}, strides = {int_array(steps)}"
        )
        return self.op("stablehlo.slice", [x], x.aval.update(shape=shape), properties)

    def window(self, x: Value, starts: Sequence[Value], sizes: Sequence[Any]) -> Value:
        """The window of these sizes that starts at indices (scalars), moved inside `x`."""
        aval = x.aval.update(shape=tuple(sizes))
        if not aval.is_symbolic:
            return self.op("stablehlo.dynamic_slice", [x, *starts], aval, f"slice_sizes = {int_array(sizes)}")
        zero = self.constant(0, SIZE)
        moved = [
            self.op("stablehlo.clamp", [zero, self.convert(start, dtypes.int32), self.dimension(n - size)], SIZE)
            for start, n, size in zip(starts, x.aval.shape, sizes)
        ]
        first, extent = self._vector(moved), self.shape(sizes)
        ones = self.constant(np.ones(len(sizes), np.int32), extent.aval)
        last = self.op("stablehlo.add", [first, extent], first.aval)
        return self.op("stablehlo.real_dynamic_slice", [x, first, last, ones], aval)

    def dynamic_slice(
        self, x: Value, starts: Sequence[Value], limits: Sequence[Value], strides: Sequence[int], sizes: Sequence[Any]
    ) -> Value:
        """A slice whose starts and limits are computed from dimensions, and its sizes."""
        vectors = [self._vector(starts), self._vector(limits), self.shape(strides)]
        return self.op("stablehlo.real_dynamic_slice", [x, *vectors], x.aval.update(shape=tuple(sizes)))

    def _vector(self, scalars: Sequence[Value]) -> Value:
        rows = [self.reshape(x, (1,)) for x in scalars]
        if len(rows) == 1:
            return rows[0]
        return self.op("stablehlo.concatenate", rows, rows[0].aval.update(shape=(len(rows),)), "dimension = 0 : i64")

    def pad(self, x: Value, value: Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Value:
        """`x` with a scalar around and between its elements; negative `low` or `high` remove elements.

        XLA can't partition an axis that loses elements and has others put in between: the process ends.
        """
        numbers = zip(x.aval.shape, low, high, interior)
        shape = tuple([n + max_dim(n - 1, 0) * between + lo + hi for n, lo, hi, between in numbers])
        if any(map(is_symbolic_dim, (*low, *high, *interior))):
            vectors = list(map(self.shape, (low, high, interior)))
            return self.op("stablehlo.dynamic_pad", [x, value, *vectors], x.aval.update(shape=shape))
        kept_whole = [axis for axis, between in enumerate(interior) if between and min(low[axis], high[axis]) < 0]
        properties = (
            f"edge_padding_low = {int_array(low)}, edge_padding_high = {int_array(high)}, "
            f"interior_padding = {int_array(interior)}"
        )
        operands = [self.whole(x, kept_whole), value]
        return self.whole(self.op("stablehlo.pad", operands, x.aval.update(shape=shape), properties), kept_whole)

    def whole(self, x: Value, axes: Sequence[int]) -> Value:
        """`x`, which the compiler does not partition along these axes."""
        mesh, free = self.module.mesh, PartitionSpec.UNCONSTRAINED
        if not self.may_be_partitioned or not axes or mesh is None:
            return x
        spec = [None if axis in axes else free for axis in range(x.aval.ndim)]
        text = self.module.sharding(mesh, spec, x.aval.ndim)
        return self.op("sdy.sharding_constraint", [x], x.aval, f"sharding = #sdy.sharding{text}")

    def call(
        self, function: str, operands: Sequence[Value], results: Sequence[ShapedArray], inline: bool = True,
        one_kernel: bool = False,
    ) -> list[Value]:  # fmt: skip
        """A call of a function of this module. XLA keeps an `inline=False` call apart when it fuses.

        XLA:CPU makes one kernel of a call with `one_kernel`, which is not inlined, as it does of small loops.
        """
        attributes = "" if inline else _ONE_KERNEL if one_kernel else NOT_INLINED
        operands = [*self.dimensions.values(), *operands]
        values = self.ops("func.call", operands, results, f"callee = @{function}", attributes=attributes)
        self.module.work.bytes += self.module.bytes_of.get(function, 0)
        is_varied = self.module.varied_results.get(function, [False] * len(results))  # it may be written by MLIR
        if not inline:
            is_varied = [v.aval.is_symbolic or v.aval.size != 1 for v in values]
        self.varied.update(v for v, each in zip(values, is_varied) if each)
        return values

    def callback(
        self,
        function: HostFunction,
        operands: Sequence[Value],
        results: Sequence[ShapedArray],
        effect: str | None,
        of_parts: bool = False,
        device: int | None = None,
    ) -> list[Value]:
        """A call of a Python function on the host; `effect` is "ordered", "unordered" or None.

        Where the compiler shards, `of_parts` says that each device calls it with its parts of the operands, without
        results, and `device` the number of the one that calls it with all of them.
        """
        ordered, target = effect == "ordered", (TARGETS_OF_PARTS if of_parts else TARGETS)[self.platform]
        properties = (
            f'call_target_name = "{target}", api_version = 4 : i32, has_side_effect = {str(bool(effect)).lower()}, '
            f"backend_config = {{index = {len(self.module.callbacks)} : ui64}}"
        )
        if of_parts:  # XLA's partitioner asks for them
            orders = [f"dense<{int_list(range(x.aval.ndim)[::-1])}> : tensor<{x.aval.ndim}xindex>" for x in operands]
            properties += f", operand_layouts = [{', '.join(orders)}], result_layouts = []"
        on_device = ""
        if device is not None:
            each = [f"<@{self.module.maximal_mesh(device)}, []>"] * max(len(results) + ordered, 1)
            on_device = f"sdy.sharding = #sdy.sharding_per_value<[{', '.join(each)}]>"
        self.module.callbacks.append(Callback(function, ordered, results, self.platform))
        if not ordered:
            return self.ops("stablehlo.custom_call", operands, results, properties, attributes=on_device)
        types, operands = [self.token_type, *results], [self.take_token(), *operands]
        outs = self.ops("stablehlo.custom_call", operands, types, properties, attributes=on_device)
        self.token = outs[0]
        return outs[1:]

    def manual_region(
        self,
        mesh: Mesh,
        axes: Sequence[Any],
        operands: Sequence[Value],
        in_specs: Sequence[Any],
        results: Sequence[ShapedArray],
        out_specs: Sequence[Any],
        body: Callable[[Builder, list[Value]], list[Value]],
        *,
        ordered: bool = False,
    ) -> list[Value]:
        """The results of `body`, which computes with each device's parts, and may communicate along `axes` of the mesh.

        `results` are the types of the whole results; `ordered`: `body` has ordered effects, whose order is that of each
        device. Along the other axes of the mesh the compiler partitions freely.
        """
        if ordered and mesh.size > 1:

            def with_token(inner: Builder, parts: list[Value]) -> list[Value]:
                inner.token = parts[0]
                outs = body(inner, parts[1:])
                return [inner.take_token(), *outs]

            self.token, *outs = self.manual_region(
                mesh, axes, [self.take_token(), *operands], [(), *in_specs], [self.token_type, *results],
                [(), *out_specs], with_token,
            )  # fmt: skip
            return outs
        if not results and mesh.size > 1:  # XLA removes a region without operands and results, effects and all
            number = ShapedArray((), dtypes.int32)

            def with_number(inner: Builder, parts: list[Value]) -> list[Value]:
                body(inner, parts)
                return [inner.constant(0, number)]

            self.manual_region(mesh, axes, operands, in_specs, [number], [()], with_number)
            return []
        module, is_open = self.module, len(axes) < len(mesh.axis_names)

        def shardings(avals: Sequence[ShapedArray], specs: Sequence[Any]) -> str:
            texts = [module.sharding(mesh, spec, a.ndim, is_open) for a, spec in zip(avals, specs)]
            return f"#sdy.sharding_per_value<[{', '.join(texts)}]>"

        in_avals, before = [v.aval for v in operands], module.manual
        module.manual = {**before, **dict.fromkeys(axes, mesh)}
        try:
            if mesh.size == 1:  # the parts are the whole, and regions take no tokens
                return body(self, list(operands))
            region = self.region(_shard_types(in_avals, mesh, in_specs), body, "sdy.return")
        finally:
            module.manual = before
        return self.ops(
            "sdy.manual_computation", operands, results,
            f"in_shardings = {shardings(in_avals, in_specs)}, out_shardings = {shardings(results, out_specs)}, "
            f"manual_axes = #sdy<manual_axes{{{', '.join(map(axis_text, axes))}}}>",
            regions=[region],
        )  # fmt: skip

    def inspect(self, operand: Value, callback: Callable[[NamedSharding], Any]) -> None:
        """Registers `callback` to be called with the sharding of the value, after the program has been compiled."""
        manual_axes = self.module.manual
        mesh: Any = next(iter(manual_axes.values()), self.module.mesh)
        inspection = Inspection(callback, mesh, operand.aval.ndim, list(manual_axes))
        self.module.inspections.append(inspection)
        self.op(
            "stablehlo.custom_call", (operand,), operand.aval,
            'call_target_name = "InspectSharding", has_side_effect = true, api_version = 1 : i32, '
            f'backend_config = "{inspection.key}"',
        )  # fmt: skip

    def fusion_barrier(self, operand: Value) -> Value:
        """The operand behind a fusion barrier: XLA:CPU does not fuse its computation into its readers.

        On other platforms it is an optimization barrier.
        """
        if self.platform != "cpu":
            return self.ops("stablehlo.optimization_barrier", (operand,), [operand.aval])[0]  # each is one of its own
        key = ("fusion_barrier", operand.aval)
        if key not in self.module.shared:
            self.module.shared[key] = self.module.function("fusion_barrier", [operand.aval], lambda _, args: args)
        return self.call(self.module.shared[key], [operand], [operand.aval], inline=False)[0]


def _shard_types(avals: Sequence[ShapedArray], mesh: Mesh, specs: Sequence[Any]) -> list[ShapedArray]:
    """The types of one device's parts of arrays."""
    return [
        aval.update(shape=NamedSharding(mesh, PartitionSpec(*spec)).shard_shape(aval.shape))
        for aval, spec in zip(avals, specs)
    ]
