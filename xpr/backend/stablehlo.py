"""A builder of StableHLO text.

Lowering rules write operations with `Builder.op`, always in MLIR's generic form, so that one method writes them all:

    %3 = "stablehlo.add"(%1, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>

A `Value` is an SSA name with its type. A `Module` holds the functions; a `Builder` writes the body of one of them, or
of a region inside one. Nothing here needs a compiler.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend import runtime
from xpr.backend.callbacks import TARGETS, TARGETS_OF_PARTS, Callback, HostFunction
from xpr.backend.mesh import MeshOfProcesses
from xpr.backend.mlir_text import NUMBER_AS_TOKEN, TOKEN, axis_text, dense, int_array, int_list, quoted, tensor_type
from xpr.backend.nan_guards import guard_exponentials, has_exponentials
from xpr.backend.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, axes_of, sharding_from_hlo
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import DimExpr, Factor, is_symbolic_dim, max_dim, unexpected

_METADATA = " {mhlo.frontend_attributes = {"


def _metadata_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Value:
    """An SSA value: its name, `%7`, and its type."""

    __slots__ = ("name", "aval")

    def __init__(self, name: str, aval: ShapedArray):
        self.name, self.aval = name, aval

    def __repr__(self) -> str:
        return f"{self.name} : {tensor_type(self.aval)}"


class Inspection:
    """A callback that receives, after compiling, the sharding of a value with `ndim` axes over a mesh.

    In a region that is manual along some axes, `manual_axes`, it is the sharding of the value of one device. `key` is
    its name in the text: the address of `append_sharding`, which the compiler calls and does not keep alive.
    """

    __slots__ = ("callback", "mesh", "ndim", "manual_axes", "append_sharding", "key", "shardings")

    def __init__(self, callback: Callable[[NamedSharding], Any], mesh: Mesh, ndim: int, manual_axes: Sequence[Any]):
        self.callback, self.mesh, self.ndim, self.manual_axes = callback, mesh, ndim, manual_axes
        self.shardings: list[Any] = []  # the compiler only appends to it
        self.append_sharding = self.shardings.append
        encoded = runtime.xc.encode_inspect_sharding_callback(self.append_sharding)
        self.key = "".join(f"\\{byte:02X}" for byte in encoded)

    def call(self) -> None:
        """Calls the callback."""
        names = [name for name in self.mesh.axis_names if name not in self.manual_axes]
        first = tuple([slice(None) if name in names else 0 for name in self.mesh.axis_names])
        for hlo in self.shardings:
            sharding = sharding_from_hlo(hlo, Mesh(self.mesh.devices[first], names), self.ndim)
            whole = all(name in names for name in sharding.mesh.axis_names)
            self.callback(NamedSharding(self.mesh, sharding.spec) if whole else sharding)


_DEEP = 8  # products
_FEW_ELEMENTS = 1 << 16  # of all results together: what computes fewer runs for microseconds
_LARGE = 1 << 18  # elements


class Codegen(NamedTuple):
    """What XLA:CPU writes for a program: whether loops are unrolled, transposes go tile by tile, vectors are wide.

    `quick`: it takes more time to compile than to run.
    """

    unrolled: bool = True
    tiled: bool = False
    wide: bool = False
    quick: bool = False


# XLA:CPU hands sums of 4096 elements and more to a library, YNNPACK, together with the elementwise operations before
# them. Its maxima and minima leave out a nan in their first operand (jaxlib 0.10.2). It has no clamp, so a maximum
# written as a clamp whose upper bound is infinite is left to XLA, which has nan in the result where there is one.
_OTHER_BOUND: dict[str, Callable[[np.dtype], Any]] = {
    "stablehlo.maximum": dtypes.greatest, "stablehlo.minimum": dtypes.least
}  # fmt: skip


SIZE = ShapedArray((), dtypes.int32)  # the type of dimensions

# Operations that take the shape of their result, where it is symbolic.
_WITH_SHAPE = {
    "stablehlo.broadcast_in_dim": "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.reshape": "stablehlo.dynamic_reshape",
    "stablehlo.iota": "stablehlo.dynamic_iota",
}

NOT_INLINED = 'mhlo.frontend_attributes = {inlineable = "false"}'  # an attribute of calls
POLYMORPHIC = "jax.uses_shape_polymorphism = true"  # an attribute of modules


class Module:
    """A module under construction: its functions, and the platform it is for: "cpu", or "cuda" for devices that say
    "gpu", or any other name.
    """

    def __init__(self, platform: str = "cpu"):
        self.platform = "cuda" if platform == "gpu" else platform
        self.functions: list[str] = []
        self.elements = 0.0  # how many its operations compute, loops and scatters infinitely many
        self.draws = False  # whether it draws random numbers, which are to be those of JAX to the last bit
        self.products = 0  # how many matrix products it has
        self.has_hot_loops = False  # some that are several times slower on CPU if they are not unrolled
        self.has_large_transposes = False
        self.has_formulas = False  # whether functions are written as arithmetic
        self.callbacks: list[Callback] = []  # the Python functions it calls, by the number it calls them by
        self.calls_expected = False  # whether most runs call some of them
        self.shared: dict[Any, Any] = {}  # functions that lowering has already written, by its keys
        self.mesh: Mesh | None = None  # of a program on several devices: what numbers them
        self.manual: dict[Any, Mesh] = {}  # the named axes of the manual regions around what is written, and their mesh
        self.dimension_variables: tuple[str, ...] = ()  # which all of its functions but `main` take first
        self.is_polymorphic = False  # whether shapes in it are known only when it is compiled
        self.located = False  # whether operations are written with the user's lines
        self.exported = False  # whether other installations are to read it
        self.inspections: list[Inspection] = []  # callbacks that receive shardings of values
        self.kept: list[Any] = []  # what the compiler calls while it partitions the program
        self.constants: dict[str, Any] = {}  # their values, by their names
        self._meshes: dict[Mesh, str] = {}
        self.meshes: list[str] = []  # definitions of the meshes that inlined functions name
        self._channels = 0
        self._groups = 0
        self._names: dict[str, int] = {}
        self._next = 0

    @property
    def codegen(self) -> Codegen:
        """How XLA:CPU is to compile it: deep networks run as fast without unrolled loops, and compile 10 % sooner."""
        unrolled = self.has_hot_loops or self.products < _DEEP
        alone = self.mesh is None and not self.is_polymorphic
        quick = self.elements <= _FEW_ELEMENTS and alone and not self.draws
        return Codegen(unrolled, self.has_large_transposes, self.has_formulas, quick)

    def fresh(self) -> str:
        self._next += 1
        return f"%{self._next}"

    def unique_name(self, base: str) -> str:
        clean = "".join(c if c.isalnum() or c in "_." else "_" for c in base) or "f"
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
        takes_dimensions: bool = True,
        argument_attributes: Sequence[str] = (),
        result_attributes: Sequence[str] = (),
    ) -> str:
        """Adds a function whose body is written by `body(builder, arguments) -> results`; returns its name.

        `takes_dimensions` says whether it takes the dimension variables, if it is not public and there are any.
        """
        name = name if public else self.unique_name(name)
        builder = Builder(self)
        arguments = [Value(f"%arg{i}", aval) for i, aval in enumerate(in_avals)]
        builder.inputs = frozenset(arguments) if public else frozenset()
        builder.runs_once = public
        attributes = list(argument_attributes) or [""] * len(arguments)
        if self.dimension_variables and takes_dimensions and not public:
            builder.dimensions = {each: Value(f"%dim{i}", SIZE) for i, each in enumerate(self.dimension_variables)}
            attributes[:0] = [f" {{jax.global_constant = {quoted(each)}}}" for each in self.dimension_variables]
        results = body(builder, arguments)
        arguments = [*([] if public else builder.dimensions.values()), *arguments]
        header = ", ".join(f"{v.name}: {tensor_type(v.aval)}{a}" for v, a in zip(arguments, attributes))
        types = ", ".join(tensor_type(v.aval) for v in results)
        result_types = ", ".join(f"{tensor_type(v.aval)}{a}" for v, a in zip(results, result_attributes)) or types
        lines = "\n".join(builder.lines)
        self.functions.append(
            f"func.func {'public' if public else 'private'} @{name}({header}) -> ({result_types}) {{\n{lines}\n"
            f'"func.return"({", ".join(v.name for v in results)}) : ({types}) -> ()\n}}'
        )
        return name

    def text(self, name: str = "xpr") -> str:
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "f"
        attributes = [POLYMORPHIC] if self.is_polymorphic else []
        meshes = [f"sdy.mesh @{name} = {self._mesh_text(mesh)}" for mesh, name in self._meshes.items()]
        devices = 1 if self.mesh is None else self.mesh.size
        attributes += [f"mhlo.num_partitions = {devices} : i32", "mhlo.num_replicas = 1 : i32"]
        functions = self.functions
        if (self.platform == "cpu" or self.is_polymorphic) and has_exponentials(functions):
            functions = guard_exponentials(functions, self.constants)
        return (
            f"module @{clean} attributes {{{', '.join(attributes)}}} {{\n"
            + "\n".join([*meshes, *self.meshes, *functions])
            + "\n}\n"
        )

    def maximal_mesh(self, device: int) -> str:
        """The name of the mesh of one device, by number, which what runs on that device alone is sharded over."""
        name = f"maximal_mesh_{device}"
        text = f"sdy.mesh @{name} = <[], device_ids=[{device}]>"
        if text not in self.meshes:
            self.meshes.append(text)
        return name

    def _mesh_text(self, mesh: Mesh) -> str:
        axes = ", ".join(f"{axis_text(name)}={size}" for name, size in mesh.shape.items())
        numbers = self.numbers(mesh).reshape(-1).tolist()
        order = "" if numbers == sorted(numbers) else f", device_ids=[{', '.join(map(str, numbers))}]"
        return f"<[{axes}]{order}>"

    def numbers(self, mesh: Mesh) -> np.ndarray:
        """The numbers that the devices of a mesh have in the program, on its grid.

        Raises:
          ValueError: the mesh has other devices than the program, or has them in another order, by which XLA's arrays
            and programs would take one device for another.
        """
        if not isinstance(mesh, Mesh):  # in a program that is exported: on the devices that it will have, in order
            return np.arange(mesh.size).reshape(mesh.axis_sizes)
        whole: Any = self.mesh
        numbers = {device: i for i, device in enumerate(whole.flat)}
        if set(mesh.flat) != numbers.keys():
            size = "" if mesh.size == len(numbers) else ", and cannot change the size of the mesh"
            raise ValueError(
                f"Received incompatible devices for jitted computation: it runs on {len(numbers)}, {whole.text}, and "
                f"a part of it on {mesh.size}, {mesh.text}{size}. They must be the same devices: make one mesh of "
                "them, or jit the parts by themselves."
            )
        if mesh.flat != whole.flat and not isinstance(whole, MeshOfProcesses):
            raise ValueError(
                "Received incompatible devices for jitted computation: it runs on "
                f"{_ids(whole)}, and a part of it, over {mesh.text}, on {_ids(mesh)}: "
                "they must be in the same order. Make one mesh of them, or put arrays on this one with "
                "xpr.device_put(x, NamedSharding(mesh, spec))."
            )
        return np.array([numbers[device] for device in mesh.flat]).reshape(mesh.axis_sizes)

    def _with_devices(self, mesh: AbstractMesh) -> Any:
        """The mesh of the program that has these axes; itself, in a program that is exported."""
        known = [each for each in (self.mesh, *self._meshes) if isinstance(each, Mesh)]
        return next((each for each in known if each.shape_tuple == mesh.shape_tuple), mesh)

    def sharding(self, mesh: Any, spec: Sequence[Any], ndim: int, is_open: bool = False) -> str:
        """`<@mesh, [{"x"}, {}]>`; what is open may be partitioned further, along axes that are not Explicit.

        What is unreduced is not open: Shardy would sum it over further axes, too.
        """
        if not isinstance(mesh, Mesh):
            mesh = self._with_devices(mesh)
        if mesh not in self._meshes:
            self.numbers(mesh)
            self._meshes[mesh] = f"mesh{len(self._meshes) or ''}"
        sums: Collection[Any] = getattr(spec, "unreduced", ())
        is_open, axes = is_open and not sums, []
        for part in (*spec, *[None] * (ndim - len(spec))):
            names = [*map(axis_text, axes_of(part)), *["?"] * (is_open or part is PartitionSpec.UNCONSTRAINED)]
            axes.append(f"{{{', '.join(names)}}}")
        used = {*sums, *self.manual, *[name for part in spec for name in axes_of(part)]}
        copies = [name for name in mesh.explicit_axes if name not in used] if is_open else []
        sets = {"replicated": copies, "unreduced": [name for name in mesh.axis_names if name in sums]}
        texts = [f", {kind}={{{', '.join(map(axis_text, names))}}}" for kind, names in sets.items() if names]
        return f"<@{self._meshes[mesh]}, [{', '.join(axes)}]{''.join(texts)}>"

    def sharding_group(self) -> int:
        """The number of a new group of values that are sharded in the same way."""
        self._groups += 1
        return self._groups

    def channel(self) -> str:
        """The attribute of an operation by which the devices communicate."""
        self._channels += 1
        return f"channel_handle = #stablehlo.channel_handle<handle = {self._channels}, type = 1>"


def _ids(mesh: Mesh) -> list[int]:
    return [device.id for device in mesh.flat]


class Builder:
    """Writes the operations of one function or region, in order.

    `token` is what the next ordered effect has to wait for, where there has been one in this function or region.
    `literals` are the constants of a jaxpr's literals that were written here, `inputs` the arguments of the program,
    where this is its main function. `runs_once`: it is known not to be in a loop.
    """

    __slots__ = (
        "_sizes", "_written", "dimensions", "draws", "inputs", "lines", "literals", "located", "module", "runs_once",
        "token",
    )  # fmt: skip

    def __init__(self, module: Module, token: Value | None = None):
        self.module, self.token = module, token
        self.inputs: frozenset[Value] = frozenset()
        self.draws = False  # whether what is written draws random numbers
        self.runs_once = False
        self.dimensions: dict[str, Value] = {}  # the values of dimension variables
        self.literals: dict[tuple[ShapedArray, str], Value] = {}
        self.lines: list[str] = []
        self.located = 0  # how many lines have the location of an equation
        self._sizes: dict[Any, Value] = {}  # dimensions that were computed here
        self._written: dict[str, Value] = {}  # what `op` wrote here, by its text

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

        The greater or lesser of two arrays is written as a clamp for CPU, see `_OTHER_BOUND`.
        """
        if name in _OTHER_BOUND and result.ndim and result.dtype in dtypes.FLOATS and self.platform == "cpu":
            name, operands = "stablehlo.clamp", self._bounds(name, operands, result)
        if result.is_symbolic and name in _WITH_SHAPE:
            name, operands = _WITH_SHAPE[name], [*operands, self.shape(result.shape)]
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
            self.module.elements += math.inf if name == "stablehlo.scatter" or result.is_symbolic else result.size
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
            self.module.elements = math.inf
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

    def annotate(self, value: Value, metadata: dict[str, Any]) -> None:
        """Gives the operation that computes a value attributes, which XLA passes on; those of arguments have none.

        Metadata that the operation has already stays, but for that of the same names.
        """
        binder = f"{value.name.partition('#')[0]}"
        for i, line in enumerate(self.lines):
            if line.startswith((f"{binder} = ", f"{binder}:")):
                start, end = line.rsplit(" : (", 1)
                known = ""
                if start.endswith("}}"):
                    start, _, known = start.rpartition(_METADATA)
                texts = dict(re.findall(r'(\w+) = ("[^"]*")', known))
                texts |= {name: quoted(_metadata_text(each)) for name, each in metadata.items()}
                pairs = ", ".join(f"{name} = {text}" for name, text in sorted(texts.items()))
                self.lines[i] = f"{start}{_METADATA}{pairs}}}}} : ({end}"

    def constant(self, value: Any, aval: ShapedArray) -> Value:
        """A constant of the given type; a scalar `value` fills its shape."""
        if aval.is_symbolic:
            return self.broadcast(self.constant(value, aval.update(shape=())), aval.shape)
        text = f"value = {dense(value, aval.dtype)} : {tensor_type(aval)}"
        written = self.op("stablehlo.constant", (), aval, text)
        self.module.constants[written.name] = value
        return written

    # -- Symbolic dimensions

    def dimension(self, size: Any) -> Value:
        """A dimension as an i32 scalar, computed from the dimension variables."""
        if not is_symbolic_dim(size):
            return self.constant(int(size), SIZE)
        known = self._sizes.get(size)
        if known is None:
            total = self._sum(size)
            known = self._sizes[size] = total
        return known

    def shape(self, shape: Sequence[Any]) -> Value:
        """A shape as a vector of i32."""
        if not shape:
            return self.constant(np.zeros(0, np.int32), SIZE.update(shape=(0,)))
        vectors = [self.reshape(self.dimension(n), (1,)) for n in shape]
        if len(vectors) == 1:
            return vectors[0]
        return self.op("stablehlo.concatenate", vectors, SIZE.update(shape=(len(vectors),)), "dimension = 0 : i64")

    def pairs(self, pairs: Sequence[Sequence[Any]]) -> Value:
        """Pairs of dimensions as a matrix of i32, one in each row."""
        rank = len(pairs)
        columns = [self.reshape(self.shape(each), (rank, 1)) for each in zip(*pairs)]
        aval = SIZE.update(shape=(rank, 2))
        return self.op("stablehlo.concatenate", columns, aval, "dimension = 1 : i64")

    def _sum(self, size: DimExpr) -> Value:
        total: Value | None = None
        for term, count in size.terms:
            part = self._product([self._factor(f) for f, n in term.factors for _ in range(n)], count)
            total = part if total is None else self.op("stablehlo.add", [total, part], SIZE)
        return total  # type: ignore[return-value]  # an expression has terms

    def _product(self, factors: Sequence[Value], count: int) -> Value:
        product = self.constant(count, SIZE) if count != 1 or not factors else factors[0]
        for each in factors if count != 1 else factors[1:]:
            product = self.op("stablehlo.multiply", [product, each], SIZE)
        return product

    def _factor(self, factor: Factor) -> Value:
        if factor.variable:
            if factor.variable not in self.dimensions:
                raise unexpected(factor.variable, self.dimensions)
            return self.dimensions[factor.variable]
        x, y = map(self.dimension, factor.operands)
        if factor.operation in ("max", "min"):
            return self.op(f"stablehlo.{factor.operation}imum", [x, y], SIZE)
        return self._floor_division(x, y)[factor.operation == "mod"]

    def _floor_division(self, x: Value, y: Value) -> tuple[Value, Value]:
        """The quotient rounded down, and the remainder, which has the sign of the divisor."""
        zero = self.constant(0, SIZE)
        quotient, remainder = [self.op(f"stablehlo.{name}", [x, y], SIZE) for name in ("divide", "remainder")]
        product = self.op("stablehlo.multiply", [remainder, y], SIZE)
        rounded_up = self._compare(product, "LT", zero)
        below = self.op("stablehlo.subtract", [quotient, self.constant(1, SIZE)], SIZE)
        shifted = self.op("stablehlo.add", [remainder, y], SIZE)
        return (
            self.op("stablehlo.select", [rounded_up, below, quotient], SIZE),
            self.op("stablehlo.select", [rounded_up, shifted, remainder], SIZE),
        )

    def compare_sizes(self, x: Any, direction: str, y: Any) -> Value:
        """Whether two dimensions compare so: EQ or GE."""
        return self._compare(self.dimension(x), direction, self.dimension(y))

    def _compare(self, x: Value, direction: str, y: Value) -> Value:
        return self.op(
            "stablehlo.compare", [x, y], SIZE.update(dtype=dtypes.bool_),
            f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
            "compare_type = #stablehlo<comparison_type SIGNED>",
        )  # fmt: skip

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
        if not self.module.is_polymorphic and operand.aval.size >= _LARGE:
            kept = [i for i in permutation if operand.aval.shape[i] != 1]
            self.module.has_large_transposes |= kept != sorted(kept)
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
        header = ", ".join(f"{v.name}: {tensor_type(v.aval)}" for v in arguments)
        types = ", ".join(tensor_type(v.aval) for v in results)
        block = f"^bb0({header}):\n" if arguments else "^bb0:\n"
        lines = "\n".join([*inner.lines, f'"{end}"({", ".join(v.name for v in results)}) : ({types}) -> ()'])
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
        self, function: str, operands: Sequence[Value], results: Sequence[ShapedArray], inline: bool = True
    ) -> list[Value]:
        """A call of a function of this module. XLA keeps an `inline=False` call apart when it fuses."""
        attributes = "" if inline else NOT_INLINED
        operands = [*self.dimensions.values(), *operands]
        return self.ops("func.call", operands, results, f"callee = @{function}", attributes=attributes)

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

        def types_of_parts(avals: Sequence[ShapedArray], specs: Sequence[Any]) -> list[ShapedArray]:
            return [
                a.update(shape=NamedSharding(mesh, PartitionSpec(*spec)).shard_shape(a.shape))
                for a, spec in zip(avals, specs)
            ]

        def shardings(avals: Sequence[ShapedArray], specs: Sequence[Any]) -> str:
            texts = [module.sharding(mesh, spec, a.ndim, is_open) for a, spec in zip(avals, specs)]
            return f"#sdy.sharding_per_value<[{', '.join(texts)}]>"

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
