"""A module of StableHLO: its functions, which lowering rules write by a `Builder` each, and what is known of them.

Nothing here needs a compiler.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xpr.backend.callbacks import Callback
from xpr.backend.dimension_arithmetic import SIZE
from xpr.backend.mlir_text import quoted, tensor_type
from xpr.backend.nan_guards import guard_exponentials, has_exponentials
from xpr.backend.program_devices import Inspection, ProgramDevices
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray
from xpr.dimensions.expressions import surely_at_least

POLYMORPHIC = "jax.uses_shape_polymorphism = true"  # an attribute of modules
_DEEP, _NETWORK = 8, 2  # products
_FEW_ELEMENTS = 1 << 16  # of all results together; a program, or step of a loop, of fewer runs for microseconds
_SMALL, _SMALL_BESIDE_LOOPS = 1 << 14, 1 << 18  # elements of an array, of which a step of a loop may read a part
_MANY_ROWS, _SHORT_ROW = 512, 16  # elements: of an array with short rows, and of a vector of 512 bits
_FEW_IN_ALL = 1 << 11  # elements of all results together

_SHAPE = re.compile(r"tensor<((?:\d+x)+)")
_SHAPE_OF_FLOATS = re.compile(r"tensor<((?:\d+x)+)(?:bf|f)\d")
_NOT_BY_ROWS = re.compile(  # operations on parts of rows, on columns, or on pairs of numbers
    r'"stablehlo\.(?:concatenate|gather|pad|reduce_window|scatter|sort)"|:2 = "stablehlo\.reduce"|'
    r'"stablehlo\.dot_general"(?!.*lhs_contracting_dimensions = \[1\], rhs_contracting_dimensions = \[0\])'
)
_PRODUCT = re.compile(r'"stablehlo\.(?:convolution|dot_general)".* -> tensor<((?:\d+x)+)')
_LOOP = re.compile(r'^(%\d+):\d+ = "stablehlo\.while"', re.MULTILINE)
_FUNCTION_OF = (  # a function of the elements of a loop's result
    r'"(?!stablehlo\.(?:custom_call|dynamic_slice|dynamic_update_slice|gather|reshape|scatter|slice|while)"|func\.return")'
    r'[\w.]+"\([^)]*{}#\d.* -> \(?tensor<((?:\d+x)+)'
)
_SLOW = re.compile(  # functions that take a few nanoseconds for each element; formulas of our own look at its bits
    r'"(?:stablehlo|chlo)\.(?:bitcast_convert|cbrt|cosine|erf\w*|exponential\w*|log\w*|power|r?sqrt|sine|tanh?)"'
    r".* -> tensor<\d+x"
)
# Elements of all results; where functions of them are slow; of one product in a program with loops.
_FEW_OVERWRITTEN_FAST, _FEW_OVERWRITTEN, _FEW_IN_LOOPS = 1 << 12, 1 << 9, 1 << 5
_LONG_REDUCTION, _FEW_REPEATED = 32, 2  # elements of a result's loop, and how many of these

# Operations with floats as their results, and those that are the same however they are compiled, by themselves.
_OF_FLOATS = re.compile(r'"\w+\.(\w+)"\(.* -> \(?tensor<[^>]*f(?:16|32|64)>')
_EXACT = frozenset(
    ("abs", "add", "bitcast_convert", "broadcast_in_dim", "call", "clamp", "concatenate", "constant", "convert",
     "dynamic_slice", "gather", "maximum", "minimum", "negate", "pad", "reshape", "reverse", "select", "slice",
     "subtract", "transpose")
)  # fmt: skip

_DEFINITION = re.compile(r'^(%\d+) = "\w+\.(\w+)"\((?:.* -> (\S+)$)?', re.MULTILINE)
_STORED = re.compile(r'"(?:func\.return|stablehlo\.concatenate)"\(([^)]*)\)')
_MANY_ALIKE = 8  # values that a program stores, beyond one of each kind

_FUNCTIONS = ('"stablehlo.exponential"', '"stablehlo.tanh"')
_UNKNOWN = " loc(unknown)"
_ONE_OPERATION = 1000  # characters: a text that may have one operation


class Codegen(NamedTuple):
    """How XLA:CPU is to generate the code of a program.

    Attributes:
      unrolled: loops are unrolled.
      narrow: vectors are of 256 bits.
      tiled: transposes are computed tile by tile.
      quick: the program takes more time to compile than to run.
      lone: the program is one exponential or hyperbolic tangent.
    """

    unrolled: bool = True
    narrow: bool = False
    tiled: bool = False
    quick: bool = False
    lone: bool = False


def _shapes(pattern: re.Pattern[str], text: str) -> list[tuple[int, ...]]:
    """The different shapes that a pattern finds, each as `2x3x`."""
    return [_sizes(shape) for shape in set(pattern.findall(text))]


def _sizes(shape: str) -> tuple[int, ...]:
    return tuple(map(int, shape.split("x")[:-1]))


def _has_short_rows(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and 1 < shape[-1] < _SHORT_ROW and math.prod(shape) >= _MANY_ROWS


def _is_short(shape: tuple[int, ...]) -> bool:
    """Whether the last axis that isn't of one element is shorter than a vector."""
    return 1 < next((n for n in reversed(shape) if n > 1), 1) < _SHORT_ROW


class Module(ProgramDevices):
    """A module under construction: its functions, and the platform it is for: "cpu", or "cuda" for devices that say
    "gpu", or any other name.
    """

    def __init__(self, platform: str = "cpu"):
        super().__init__()
        self.platform = "cuda" if platform == "gpu" else platform
        self.functions: list[str] = []
        self.elements = 0.0  # how many its operations compute, in one step of a loop; scatters count as infinitely many
        self.draws = False  # whether it draws random numbers outside of loops, those of JAX to the last bit
        self.products = 0  # how many matrix products it has
        self.repeated_reductions = 0  # long ones, after the first of each kind
        self.has_loops = False  # whether it has `while`
        self.has_hot_loops = False  # whether some are several times slower on CPU if they are not unrolled
        self.has_large_transposes = False
        self.callbacks: list[Callback] = []  # the Python functions it calls, by the number it calls them by
        self.calls_expected = False  # whether most runs call some of them
        self.shared: dict[Any, Any] = {}  # functions that lowering has already written, by its keys
        self.varied_results: dict[str, list[bool]] = {}  # which results of a function are, see `Builder.varied`
        self.dimension_variables: tuple[str, ...] = ()  # which all of its functions but `main` take first
        self.is_polymorphic = False  # whether shapes in it are known only when it is compiled
        # The names of the scopes around what is written, in a text with locations; None in one without.
        self.scopes: tuple[str, ...] | None = None
        self.location = ""  # that of the operation that is lowered, where there are locations
        self.exported = False  # whether other installations are to read it
        self.inspections: list[Inspection] = []  # callbacks that receive shardings of values
        self.kept: list[Any] = []  # the functions that the compiler calls while it partitions the program
        self.constants: dict[str, Any] = {}  # their values, by their names
        self.inlined_meshes: list[str] = []  # definitions of the meshes that functions of exported programs name
        self._reductions: set[Any] = set()  # the kinds of the long ones
        self._names: dict[str, int] = {}
        self._next = 0

    @property
    def codegen(self) -> Codegen:
        """How XLA:CPU is to compile it.

        The fusion emitters compile a kernel once for all operations that are alike. Without them each of ten sums takes
        as long as the first, and so does each of a hundred parameters that an optimizer adds something to.
        """
        alone = self.mesh is None and not self.is_polymorphic
        few = self.elements <= _FEW_ELEMENTS and self.repeated_reductions <= _FEW_REPEATED
        small = few and alone and not (self.draws and self._rounds()) and not self._stores_many_alike()
        return self._codegen(small, quick=small and not self._overwrites_many())

    def codegen_of_operation(self) -> Codegen:
        """How XLA:CPU is to compile it, which is a single operation: quickly, however long it runs."""
        return self._codegen(small=True, quick=True)

    def _codegen(self, small: bool, quick: bool) -> Codegen:
        """Deep networks run as fast without unrolled loops, and compile 10 % sooner; small arrays up to 10 times.

        LLVM unrolls the loops over rows of a known length, and what the vectors leave of each: `tanh` of [20, 30] takes
        160 ms to compile, and 20 ms if it doesn't. Only where many rows are shorter than a vector, that is slower to
        run, and vectors of 256 bits leave less of each. Loops over whole rows run up to five times faster so, and those
        over parts of rows, and some products, several times slower.
        """
        unrolled, narrow = self.has_hot_loops or self.products < _DEEP, False
        text = "".join(self.functions) if small and not self.is_polymorphic else ""
        shapes = _shapes(_SHAPE, text)
        largest = max(map(math.prod, shapes), default=1)
        if text and self.has_loops and self.elements <= _FEW_ELEMENTS:
            by_rows = not _NOT_BY_ROWS.search(text) and not any(map(_is_short, _shapes(_SHAPE_OF_FLOATS, text)))
            unrolled = narrow = largest > _SMALL_BESIDE_LOOPS or not by_rows
        elif self.has_loops:
            narrow = self.elements <= _SMALL_BESIDE_LOOPS
        elif text and largest <= _SMALL:
            several = self.elements > _FEW_IN_ALL and self.products < _NETWORK
            unrolled = narrow = several and any(map(_has_short_rows, shapes))
        return Codegen(unrolled, narrow, self.has_large_transposes, quick, self._is_lone_function())

    def _overwrites_many(self) -> bool:
        """Whether functions of elements that overwrite their operand have so many of them that it counts.

        Results of products, convolutions and loops have buffers of their own, which the next function of the elements
        overwrites. Without the fusion emitters LLVM doesn't know that each element is read before it is written, and
        computes one at a time.
        """
        products = [math.prod(_sizes(shape)) for text in self.functions for shape in _PRODUCT.findall(text)]
        if not self.has_loops:
            is_slow = any(map(_SLOW.search, self.functions))
            return sum(products) > (_FEW_OVERWRITTEN if is_slow else _FEW_OVERWRITTEN_FAST)
        read = (
            math.prod(_sizes(shape))
            for text in self.functions
            for name in _LOOP.findall(text)
            for shape in re.findall(_FUNCTION_OF.format(name), text)
        )
        return max(products, default=0) > _FEW_IN_LOOPS or sum(read) > _FEW_OVERWRITTEN

    def _rounds(self) -> bool:
        """Whether results may depend on how kernels are compiled, on products that are added in one instruction say."""
        texts = self.functions
        return any('"stablehlo.reduce' in text or not _EXACT.issuperset(_OF_FLOATS.findall(text)) for text in texts)

    def _stores_many_alike(self) -> bool:
        """Whether many of the values that it stores together, each by a kernel of its own, are computed alike."""
        text = "".join(self.functions)
        together = (names.split(", ") for names in _STORED.findall(text))
        stored = [name for names in together if len(names) > _MANY_ALIKE for name in names]
        if not stored:
            return False
        kinds = {name: kind for name, *kind in _DEFINITION.findall(text)}
        computed = [tuple(kinds[name]) for name in stored if name in kinds]
        return len(computed) - len(set(computed)) >= _MANY_ALIKE

    def _is_lone_function(self) -> bool:
        """Whether it is one operation, of those in `_FUNCTIONS`."""
        text = self.functions[0] if len(self.functions) == 1 else ""
        return (
            len(text) < _ONE_OPERATION and text.count('"stablehlo.') == 1 and any(name in text for name in _FUNCTIONS)
        )

    def add_reduction(self, kind: Any, reduced: Any) -> None:
        """Counts a reduction of `reduced` elements to one; XLA may compile those of one kind together."""
        if surely_at_least(reduced, _LONG_REDUCTION):
            self.repeated_reductions += kind in self._reductions
            self._reductions.add(kind)

    def fresh(self) -> str:
        """A new name of an SSA value."""
        self._next += 1
        return f"%{self._next}"

    def unique_name(self, base: str) -> str:
        """A new name of a function: `base`, with a number where the module has one of this name."""
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
        takes_varied: bool = False,
        runs_once: bool = False,
    ) -> str:
        """Adds a function whose body is written by `body(builder, arguments) -> results`; returns its name.

        `takes_dimensions` says whether it takes the dimension variables, if it is not public and there are any;
        `takes_varied` whether its arguments are varied even so, see `Builder.varied`, and `runs_once` whether no loop
        calls it; no loop calls a public one.
        """
        name = name if public else self.unique_name(name)
        builder = Builder(self)
        arguments = [Value(f"%arg{i}", aval) for i, aval in enumerate(in_avals)]
        if public or takes_varied:
            builder.varied = {v for v in arguments if v.aval.is_symbolic or v.aval.size != 1}
        builder.runs_once = public or runs_once
        attributes = list(argument_attributes) or ["" if self.scopes is None else _UNKNOWN] * len(arguments)
        if self.dimension_variables and takes_dimensions and not public:
            builder.dimensions = {each: Value(f"%dim{i}", SIZE) for i, each in enumerate(self.dimension_variables)}
            attributes[:0] = [f" {{jax.global_constant = {quoted(each)}}}" for each in self.dimension_variables]
        around = self.scopes, self.location
        if self.scopes is not None:  # a function that an operation calls may be called from several scopes
            self.scopes, self.location = () if self.location else self.scopes, _UNKNOWN
        results = body(builder, arguments)
        self.varied_results[name] = [v in builder.varied for v in results]
        arguments = [*([] if public else builder.dimensions.values()), *arguments]
        header = ", ".join(f"{v.name}: {tensor_type(v.aval)}{a}" for v, a in zip(arguments, attributes))
        types = ", ".join(tensor_type(v.aval) for v in results)
        result_types = ", ".join(f"{tensor_type(v.aval)}{a}" for v, a in zip(results, result_attributes)) or types
        lines = builder.located(f'"func.return"({", ".join(v.name for v in results)}) : ({types}) -> ()')
        self.functions.append(
            f"func.func {'public' if public else 'private'} @{name}({header}) -> ({result_types}) {{\n{lines}\n}}"
            f"{self.location}"
        )
        self.scopes, self.location = around
        return name

    def text(self, name: str = "xpr") -> str:
        """The module in MLIR's generic form; characters of the name that MLIR does not allow become underscores."""
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "f"
        attributes = [POLYMORPHIC] if self.is_polymorphic else []
        devices = 1 if self.mesh is None else self.mesh.size
        attributes += [f"mhlo.num_partitions = {devices} : i32", "mhlo.num_replicas = 1 : i32"]
        functions = self.functions
        if (self.platform == "cpu" or self.is_polymorphic) and has_exponentials(functions):
            functions = guard_exponentials(functions, self.constants)
        definitions = [*self.mesh_definitions(), *self.inlined_meshes, *functions]
        return f"module @{clean} attributes {{{', '.join(attributes)}}} {{\n" + "\n".join(definitions) + "\n}\n"
