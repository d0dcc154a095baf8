"""A builder of StableHLO text.

Lowering rules write operations with `Builder.op`, always in MLIR's generic form, so that one method writes them all:

    %3 = "stablehlo.add"(%1, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>

A `Value` is an SSA name with its type. A `Module` holds the functions; a `Builder` writes the body of one of them, or
of a region inside one. Nothing here needs a compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import runtime
from xpr.backend.callbacks import TARGET, Callback, HostFunction
from xpr.backend.sharding import Mesh, NamedSharding, PartitionSpec, axes_of, sharding_from_hlo
from xpr.core.avals import ShapedArray
from xpr.errors import ArrayTooLargeError

_ELEMENT = {
    dtypes.bool_: "i1", dtypes.bfloat16: "bf16", dtypes.float16: "f16", dtypes.float32: "f32", dtypes.float64: "f64",
    dtypes.complex64: "complex<f32>", dtypes.complex128: "complex<f64>", dtypes.float0: "i1",
    **{np.dtype(f"int{n}"): f"i{n}" for n in (8, 16, 32, 64)},
    **{np.dtype(f"uint{n}"): f"ui{n}" for n in (8, 16, 32, 64)},
    dtypes.int4: "i4", dtypes.uint4: "ui4", dtypes.int2: "i2", dtypes.uint2: "ui2",
    dtypes.float8_e4m3fn: "f8E4M3FN", dtypes.float8_e5m2: "f8E5M2", dtypes.float8_e4m3b11fnuz: "f8E4M3B11FNUZ",
    dtypes.float8_e4m3fnuz: "f8E4M3FNUZ", dtypes.float8_e5m2fnuz: "f8E5M2FNUZ",
}  # fmt: skip


class _Token:
    """The type of a token: operations with effects are put in order by taking the last one's and giving the next."""

    __slots__ = ()


TOKEN: Any = _Token()
_MOST_BYTES = 2**63 - 1
_type_texts: dict[Any, str] = {TOKEN: "!stablehlo.token"}


def tensor_type(aval: ShapedArray) -> str:
    """`tensor<2x3xf32>`.

    Raises:
      ArrayTooLargeError: XLA, which ends the process, can't count its bytes.
    """
    try:
        return _type_texts[aval]
    except KeyError:
        if aval.size * aval.dtype.itemsize > _MOST_BYTES:
            raise ArrayTooLargeError(
                f"An array of type {aval.str_short()} has {aval.size * aval.dtype.itemsize:.3g} bytes; no array can "
                f"have more than {_MOST_BYTES:.3g} (2**63 - 1). Is one of its sizes a mistake?"
            ) from None
        text = f"tensor<{''.join(f'{n}x' for n in aval.shape)}{_ELEMENT[aval.dtype]}>"
        return _type_texts.setdefault(aval, text)


def scalar_text(value: Any, dtype: np.dtype) -> str:
    """One number as MLIR writes it; floats that have no exact decimal form are written as bits."""
    if dtype == dtypes.bool_ or dtype == dtypes.float0:
        return "true" if value else "false"
    if dtype in dtypes.INTEGERS:
        return str(int(value))
    if dtype in dtypes.COMPLEX:
        part = dtypes.real_part_of(dtype)
        return f"({scalar_text(value.real, part)}, {scalar_text(value.imag, part)})"
    number = float(value)
    if math.isfinite(number):
        text = repr(number)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    bits = np.asarray(value, dtype).view(np.dtype(f"uint{8 * dtype.itemsize}"))
    return f"0x{int(bits):0{2 * dtype.itemsize}X}"


def dense(value: Any, dtype: np.dtype) -> str:
    """The text of a constant array, `dense<[1, 2]>`; a scalar is a splat of whatever shape the type says."""
    array = np.asarray(value)
    if array.ndim == 0:
        return f"dense<{scalar_text(array[()], dtype)}>"

    def rows(part: np.ndarray) -> str:
        if part.ndim == 0:
            return scalar_text(part[()], dtype)
        return f"[{', '.join(map(rows, part))}]"

    return f"dense<{rows(array)}>" if array.size else "dense<>"


def int_array(values: Iterable[int]) -> str:
    """`array<i64: 0, 1>`, the form of most shape-like attributes."""
    values = list(values)
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def int_list(values: Iterable[int]) -> str:
    """`[0, 1]`, the form of the fields of dimension-number attributes."""
    return f"[{', '.join(map(str, values))}]"


def int_matrix(rows: Sequence[Sequence[int]], columns: int = 2) -> str:
    """`dense<[[0, 1]]> : tensor<1x2xi64>`, the form of paddings and replica groups."""
    body = f"dense<[{', '.join(int_list(row) for row in rows)}]>" if rows else "dense<>"
    return f"{body} : tensor<{len(rows)}x{columns}xi64>"


def axis_text(name: Any) -> str:
    """The name of an axis of a mesh, in quotes."""
    return '"' + "".join(c if c.isalnum() or c in "_:.-" else "_" for c in str(name)) + '"'


class Value:
    """An SSA value: its name, `%7`, and its type."""

    __slots__ = ("name", "aval")

    def __init__(self, name: str, aval: ShapedArray):
        self.name, self.aval = name, aval

    def __repr__(self) -> str:
        return f"{self.name} : {tensor_type(self.aval)}"


class Inspection:
    """Somebody who asks how a value with `ndim` axes lies on the devices of a mesh, and is told after compiling.

    In a region that is written for each device along some axes, `by_hand`, it is about the value of one of them. `key`
    is what the text names it by: the address of `answer`, which the compiler calls and does not keep alive.
    """

    __slots__ = ("callback", "mesh", "ndim", "by_hand", "answer", "key", "found")

    def __init__(self, callback: Callable[[NamedSharding], Any], mesh: Mesh, ndim: int, by_hand: Sequence[Any]):
        self.callback, self.mesh, self.ndim, self.by_hand = callback, mesh, ndim, by_hand
        self.found: list[Any] = []  # nothing else is done while the compiler works
        self.answer = self.found.append
        self.key = "".join(f"\\{byte:02X}" for byte in runtime.xc.encode_inspect_sharding_callback(self.answer))

    def tell(self) -> None:
        """Calls who asked."""
        names = [name for name in self.mesh.axis_names if name not in self.by_hand]
        first = tuple([slice(None) if name in names else 0 for name in self.mesh.axis_names])
        for found in self.found:
            sharding = sharding_from_hlo(found, Mesh(self.mesh.devices[first], names), self.ndim)
            whole = all(name in names for name in sharding.mesh.axis_names)
            self.callback(NamedSharding(self.mesh, sharding.spec) if whole else sharding)


_DEEP = 8  # products

# XLA:CPU hands sums of 4096 elements and more to a library, YNNPACK, together with the elementwise operations before
# them. Its maxima and minima leave out a nan in their first operand (jaxlib 0.10.2). It has no clamp, so a maximum
# written as a clamp whose upper bound is infinite is left to XLA, which has nan in the result where there is one.
_OTHER_BOUND: dict[str, Callable[[np.dtype], Any]] = {
    "stablehlo.maximum": dtypes.greatest, "stablehlo.minimum": dtypes.least
}  # fmt: skip


class Module:
    """A module under construction: its functions, and the platform it is for."""

    def __init__(self, platform: str = "cpu"):
        self.platform = platform
        self.functions: list[str] = []
        self.products = 0  # how many matrix products it has
        self.has_hot_loops = False  # some that are several times slower on CPU if they are not unrolled
        self.callbacks: list[Callback] = []  # the Python functions it calls, by the number it calls them by
        self.shared: dict[Any, Any] = {}  # what lowering has already made a function of, by whatever key it chose
        self.mesh: Mesh | None = None  # of a program on several devices: what numbers them
        self.manual: dict[Any, Mesh] = {}  # the named axes of the manual regions around what is written, and their mesh
        self.inspections: list[Inspection] = []  # what asks how values lie on several devices
        self._meshes: dict[Mesh, str] = {}
        self._channels = 0
        self._names: dict[str, int] = {}
        self._next = 0

    @property
    def unrolled(self) -> bool:
        """Whether XLA:CPU is to unroll loops: not those of deep networks, which run as fast and compile 10 % sooner."""
        return self.has_hot_loops or self.products < _DEEP

    def fresh(self) -> str:
        self._next += 1
        return f"%{self._next}"

    def unique_name(self, base: str) -> str:
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in base) or "f"
        count = self._names.get(clean, 0)
        self._names[clean] = count + 1
        return f"{clean}_{count}" if count else clean

    def function(
        self,
        name: str,
        in_avals: Sequence[ShapedArray],
        body: Callable[[Builder, list[Value]], list[Value]],
        *,
        public: bool = False,
        argument_attributes: Sequence[str] = (),
        result_attributes: Sequence[str] = (),
    ) -> str:
        """Adds a function whose body is written by `body(builder, arguments) -> results`; gives its name."""
        name = name if public else self.unique_name(name)
        builder = Builder(self)
        arguments = [Value(f"%arg{i}", aval) for i, aval in enumerate(in_avals)]
        results = body(builder, arguments)
        attributes = list(argument_attributes) or [""] * len(arguments)
        header = ", ".join(f"{v.name}: {tensor_type(v.aval)}{a}" for v, a in zip(arguments, attributes))
        types = ", ".join(tensor_type(v.aval) for v in results)
        given = ", ".join(f"{tensor_type(v.aval)}{a}" for v, a in zip(results, result_attributes)) or types
        lines = "\n".join(builder.lines)
        self.functions.append(
            f"func.func {'public' if public else 'private'} @{name}({header}) -> ({given}) {{\n{lines}\n"
            f'"func.return"({", ".join(v.name for v in results)}) : ({types}) -> ()\n}}'
        )
        return name

    def text(self, name: str = "xpr") -> str:
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "f"
        if self.mesh is None:
            return f"module @{clean} {{\n" + "\n".join(self.functions) + "\n}\n"
        attributes = f"mhlo.num_partitions = {self.mesh.size} : i32, mhlo.num_replicas = 1 : i32"
        meshes = [f"sdy.mesh @{name} = {self._mesh_text(mesh)}" for mesh, name in self._meshes.items()]
        return f"module @{clean} attributes {{{attributes}}} {{\n" + "\n".join([*meshes, *self.functions]) + "\n}\n"

    def _mesh_text(self, mesh: Mesh) -> str:
        axes = ", ".join(f"{axis_text(name)}={size}" for name, size in mesh.shape.items())
        numbers = self.numbers(mesh).reshape(-1).tolist()
        order = "" if numbers == sorted(numbers) else f", device_ids=[{', '.join(map(str, numbers))}]"
        return f"<[{axes}]{order}>"

    def numbers(self, mesh: Mesh) -> np.ndarray:
        """What the program calls the devices of a mesh, on its grid.

        Raises:
          ValueError: the mesh has other devices than the program.
        """
        places = {device: i for i, device in enumerate(self.mesh.flat)}  # type: ignore[union-attr]  # it has one
        if set(mesh.flat) != places.keys():
            raise ValueError(
                f"A program runs on {len(places)} devices, {self.mesh!r}, and a part of it on {mesh.size}, {mesh!r}: "
                "they must be the same devices. Make one mesh of them, or jit the parts by themselves."
            )
        return np.array([places[device] for device in mesh.flat]).reshape(mesh.axis_sizes)

    def sharding(self, mesh: Mesh, entries: Sequence[Any], ndim: int, is_open: bool = False) -> str:
        """`<@mesh, [{"x"}, {}]>`; what is open may be cut further."""
        if mesh not in self._meshes:
            self.numbers(mesh)
            self._meshes[mesh] = f"mesh{len(self._meshes) or ''}"
        rest = "?" if is_open else ""
        found = []
        for entry in (*entries, *[None] * (ndim - len(entries))):
            names = [*map(axis_text, axes_of(entry)), *["?"] * bool(rest or entry is PartitionSpec.UNCONSTRAINED)]
            found.append(f"{{{', '.join(names)}}}")
        return f"<@{self._meshes[mesh]}, [{', '.join(found)}]>"

    def channel(self) -> str:
        """What marks an operation by which the devices communicate."""
        self._channels += 1
        return f"channel_handle = #stablehlo.channel_handle<handle = {self._channels}, type = 1>"


class Builder:
    """Writes the operations of one function or region, in order.

    `token` is what the next ordered effect has to wait for, where there has been one in this function or region.
    """

    __slots__ = ("_written", "lines", "module", "token")

    def __init__(self, module: Module, token: Value | None = None):
        self.module, self.token = module, token
        self.lines: list[str] = []
        self._written: dict[str, Value] = {}  # what `op` wrote here, by its text

    @property
    def platform(self) -> str:
        return self.module.platform

    @property
    def may_be_cut(self) -> bool:
        """Whether the compiler cuts arrays for several devices: not in a region that says what each of them does."""
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
          operands: values made by this builder, or by the one around it.
          result: the type of the result.
          properties: `key = value, ...` as MLIR writes attributes.
          regions: texts made by `region`.

        The greater or lesser of two arrays is written as a clamp for CPU, see `_OTHER_BOUND`.
        """
        if name in _OTHER_BOUND and result.ndim and result.dtype in dtypes.FLOATS and self.platform == "cpu":
            name, operands = "stablehlo.clamp", self._bounds(name, operands, result)
        types = ", ".join([tensor_type(v.aval) for v in operands])
        names = ", ".join([v.name for v in operands])
        middle = f" <{{{properties}}}>" if properties else ""
        if regions:
            middle += f" ({', '.join(regions)})"
        text = f'"{name}"({names}){middle} : ({types}) -> {tensor_type(result)}'
        value = self._written.get(text)
        if value is None:
            value = self._written[text] = Value(self.module.fresh(), result)
            self.lines.append(f"{value.name} = {text}")
        return value

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
            self.module.has_hot_loops = True
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

    def constant(self, value: Any, aval: ShapedArray) -> Value:
        """A constant of the given type; a scalar `value` fills its shape."""
        return self.op("stablehlo.constant", (), aval, f"value = {dense(value, aval.dtype)} : {tensor_type(aval)}")

    def broadcast(self, operand: Value, shape: Sequence[int], dimensions: Sequence[int] = ()) -> Value:
        """`broadcast_in_dim`; `dimensions[i]` is where the operand's axis i goes."""
        aval = operand.aval.update(shape=tuple(shape))
        if aval is operand.aval:
            return operand
        return self.op(
            "stablehlo.broadcast_in_dim", (operand,), aval, f"broadcast_dimensions = {int_array(dimensions)}"
        )

    def convert(self, operand: Value, dtype: np.dtype) -> Value:
        """The operand with the dtype. Bools become floats through integers: XLA takes the product of a float and a
        converted bool for a choice between the float and 0, which loses nan and 0 times inf.
        """
        if operand.aval.dtype == dtype:
            return operand
        if operand.aval.dtype == dtypes.bool_ and dtype in dtypes.INEXACT:
            operand = self.op("stablehlo.convert", (operand,), operand.aval.update(dtype=dtypes.uint8))
        return self.op("stablehlo.convert", (operand,), operand.aval.update(dtype=dtype))

    def reshape(self, operand: Value, shape: Sequence[int]) -> Value:
        return self.op("stablehlo.reshape", (operand,), operand.aval.update(shape=tuple(shape)))

    def transpose(self, operand: Value, permutation: Sequence[int]) -> Value:
        shape = tuple(operand.aval.shape[i] for i in permutation)
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
        arguments = [Value(self.module.fresh().replace("%", "%r"), aval) for aval in in_avals]
        results = body(inner, arguments)
        header = ", ".join(f"{v.name}: {tensor_type(v.aval)}" for v in arguments)
        types = ", ".join(tensor_type(v.aval) for v in results)
        block = f"^bb0({header}):\n" if arguments else "^bb0:\n"
        lines = "\n".join([*inner.lines, f'"{end}"({", ".join(v.name for v in results)}) : ({types}) -> ()'])
        return f"{{\n{block}{lines}\n}}"

    def take_token(self) -> Value:
        """The token of the last ordered effect, made where there has been none."""
        if self.token is None:
            self.token = self.op("stablehlo.create_token", (), TOKEN)
        return self.token

    def while_loop(
        self,
        going: Callable[[Builder, list[Value]], Value],
        step: Callable[[Builder, list[Value]], list[Value]],
        carried: Sequence[Value],
        *,
        ordered: bool = False,
    ) -> list[Value]:
        """A loop that takes steps from `carried` for as long as `going` gives true; `ordered`: its steps have effects.

        Both functions write into regions of their own, and may use values that were made before the loop.
        """
        tokens = [self.take_token()] if ordered else []
        types = [v.aval for v in (*tokens, *carried)]
        n = len(tokens)

        def write_going(inner: Builder, state: list[Value]) -> list[Value]:
            return [going(inner, state[n:])]

        def write_step(inner: Builder, state: list[Value]) -> list[Value]:
            inner.token = state[0] if ordered else None
            results = step(inner, state[n:])
            return [inner.take_token(), *results] if ordered else results

        regions = [self.region(types, write_going), self.region(types, write_step)]
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
        """What the branch numbered `index` (an i32 scalar) writes; the last one where there is no such branch.

        Branches write into regions of their own, and may use values that were made before.
        """
        token = self.take_token() if ordered else None

        def region_of(branch: Callable[[Builder], list[Value]]) -> str:
            def write(inner: Builder, _: list[Value]) -> list[Value]:
                inner.token = token
                outs = branch(inner)
                return [inner.take_token(), *outs] if ordered else outs

            return self.region([], write)

        types = [TOKEN, *results] if ordered else list(results)
        given = self.ops("stablehlo.case", [index], types, regions=[region_of(branch) for branch in branches])
        if ordered:
            self.token = given[0]
        return given[1:] if ordered else given

    def slice(
        self, x: Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
    ) -> Value:
        """The entries of `x` from `starts` to before `limits`, every `strides`-th one along each axis.

        Of a single entry the stride does not matter, but XLA can't cut an axis for several devices that has one.
        """
        steps = [1] * x.aval.ndim if strides is None else list(strides)
        shape = tuple([-(-(limit - start) // step) for start, limit, step in zip(starts, limits, steps)])
        steps = [1 if n == 1 else step for n, step in zip(shape, steps)]
        limits = [start + 1 if n == 1 else limit for start, limit, n in zip(starts, limits, shape)]
        properties = (
            f"start_indices = {int_array(starts)}, limit_indices = {int_array(limits)}, strides = {int_array(steps)}"
        )
        return self.op("stablehlo.slice", [x], x.aval.update(shape=shape), properties)

    def pad(self, x: Value, value: Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Value:
        """`x` with a scalar around and between its entries; where `low` or `high` are negative entries are cut off.

        XLA can't cut an axis for several devices that loses entries and has others put in between: the process ends.
        """
        spread = zip(x.aval.shape, low, high, interior)
        shape = tuple([n + max(n - 1, 0) * between + lo + hi for n, lo, hi, between in spread])
        never_cut = [axis for axis, between in enumerate(interior) if between and min(low[axis], high[axis]) < 0]
        properties = (
            f"edge_padding_low = {int_array(low)}, edge_padding_high = {int_array(high)}, "
            f"interior_padding = {int_array(interior)}"
        )
        operands = [self.whole(x, never_cut), value]
        return self.whole(self.op("stablehlo.pad", operands, x.aval.update(shape=shape), properties), never_cut)

    def whole(self, x: Value, axes: Sequence[int]) -> Value:
        """`x`, which the compiler does not cut over several devices along these axes."""
        mesh, free = self.module.mesh, PartitionSpec.UNCONSTRAINED
        if not self.may_be_cut or not axes or mesh is None:
            return x
        entries = [None if axis in axes else free for axis in range(x.aval.ndim)]
        text = self.module.sharding(mesh, entries, x.aval.ndim)
        return self.op("sdy.sharding_constraint", [x], x.aval, f"sharding = #sdy.sharding{text}")

    def call(
        self, function: str, operands: Sequence[Value], results: Sequence[ShapedArray], inline: bool = True
    ) -> list[Value]:
        """A call of a function of this module. XLA keeps an `inline=False` call apart when it fuses."""
        attributes = "" if inline else 'mhlo.frontend_attributes = {inlineable = "false"}'
        return self.ops("func.call", operands, results, f"callee = @{function}", attributes=attributes)

    def callback(
        self, function: HostFunction, operands: Sequence[Value], results: Sequence[ShapedArray], effect: str | None
    ) -> list[Value]:
        """A call of a Python function on the host; `effect` is "ordered", "unordered" or None. For CPU alone."""
        ordered = effect == "ordered"
        properties = (
            f'call_target_name = "{TARGET}", api_version = 4 : i32, has_side_effect = {str(bool(effect)).lower()}, '
            f"backend_config = {{index = {len(self.module.callbacks)} : ui64}}"
        )
        self.module.callbacks.append(Callback(function, ordered, results))
        if not ordered:
            return self.ops("stablehlo.custom_call", operands, results, properties)
        given = self.ops("stablehlo.custom_call", [self.take_token(), *operands], [TOKEN, *results], properties)
        self.token = given[0]
        return given[1:]

    def manual_region(
        self,
        mesh: Mesh,
        axes: Sequence[Any],
        operands: Sequence[Value],
        in_specs: Sequence[Any],
        results: Sequence[ShapedArray],
        out_specs: Sequence[Any],
        body: Callable[[Builder, list[Value]], list[Value]],
    ) -> list[Value]:
        """What `body` writes of each device's parts, which may communicate along `axes` of the mesh.

        `results` are the types of the whole results. Along the other axes of the mesh the compiler cuts as it likes.
        """
        if not results and mesh.size > 1:  # to XLA what takes and gives nothing is no region, and effects have no place
            number = ShapedArray((), dtypes.int32)

            def with_number(inner: Builder, parts: list[Value]) -> list[Value]:
                body(inner, parts)
                return [inner.constant(0, number)]

            self.manual_region(mesh, axes, operands, in_specs, [number], [()], with_number)
            return []
        module, is_open = self.module, len(axes) < len(mesh.axis_names)

        def types_of_parts(avals: Sequence[ShapedArray], specs: Sequence[Any]) -> list[ShapedArray]:
            return [
                a.update(shape=NamedSharding(mesh, PartitionSpec(*spec)).shard_shape(a.shape))
                for a, spec in zip(avals, specs)
            ]

        def shardings(avals: Sequence[ShapedArray], specs: Sequence[Any]) -> str:
            found = [module.sharding(mesh, spec, a.ndim, is_open) for a, spec in zip(avals, specs)]
            return f"#sdy.sharding_per_value<[{', '.join(found)}]>"

        in_avals, before = [v.aval for v in operands], module.manual
        module.manual = {**before, **dict.fromkeys(axes, mesh)}
        try:
            if mesh.size == 1:  # the parts are the whole, and regions take no tokens
                return body(self, list(operands))
            region = self.region(types_of_parts(in_avals, in_specs), body, "sdy.return")
        finally:
            module.manual = before
        return self.ops(
            "sdy.manual_computation", operands, results,
            f"in_shardings = {shardings(in_avals, in_specs)}, out_shardings = {shardings(results, out_specs)}, "
            f"manual_axes = #sdy<manual_axes{{{', '.join(map(axis_text, axes))}}}>",
            regions=[region],
        )  # fmt: skip

    def inspect(self, operand: Value, callback: Callable[[NamedSharding], Any]) -> None:
        """Has `callback` called with how the value lies, after the program has been compiled."""
        by_hand = self.module.manual
        mesh: Any = next(iter(by_hand.values()), self.module.mesh)
        asked = Inspection(callback, mesh, operand.aval.ndim, list(by_hand))
        self.module.inspections.append(asked)
        self.op(
            "stablehlo.custom_call", (operand,), operand.aval,
            'call_target_name = "InspectSharding", has_side_effect = true, api_version = 1 : i32, '
            f'backend_config = "{asked.key}"',
        )  # fmt: skip

    def fence(self, operand: Value) -> Value:
        """The operand itself, kept by XLA:CPU from being fused into what reads it.

        Elsewhere than on CPU it is an optimization barrier.
        """
        if self.platform != "cpu":
            return self.ops("stablehlo.optimization_barrier", (operand,), [operand.aval])[0]  # each is one of its own
        key = ("fence", operand.aval)
        if key not in self.module.shared:
            self.module.shared[key] = self.module.function("fence", [operand.aval], lambda _, args: args)
        return self.call(self.module.shared[key], [operand], [operand.aval], inline=False)[0]
