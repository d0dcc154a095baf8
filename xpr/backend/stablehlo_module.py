"""A module of StableHLO: its functions, which lowering rules write by a `Builder` each, and what is known of them.

Nothing here needs a compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend.callbacks import Callback
from xpr.backend.codegen import Codegen, Workload, codegen_of_operation, codegen_of_program
from xpr.backend.dimension_arithmetic import SIZE
from xpr.backend.mlir_text import quoted, symbol, tensor_type
from xpr.backend.nan_guards import guard_exponentials, has_exponentials
from xpr.backend.program_devices import Inspection, ProgramDevices
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import ShapedArray

POLYMORPHIC = "jax.uses_shape_polymorphism = true"  # an attribute of modules
_UNKNOWN = " loc(unknown)"


class Module(ProgramDevices):
    """A module under construction: its functions, and the platform it is for: "cpu", or "cuda" for devices that say
    "gpu", or any other name.
    """

    def __init__(self, platform: str = "cpu"):
        super().__init__()
        self.platform = "cuda" if platform == "gpu" else platform
        self.functions: list[str] = []
        self.work = Workload()
        self.bytes_of: dict[str, float] = {}  # what a call of each private function adds to `work.bytes`
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
        self._names = {"main": 1}  # for each name that is taken, the number that the next function of it tries
        self._next = 0

    @property
    def codegen(self) -> Codegen:
        """How XLA:CPU is to compile it."""
        return codegen_of_program(self.functions, self.work, self._is_plain)

    def codegen_of_operation(self) -> Codegen:
        """How XLA:CPU is to compile it, which is a single operation."""
        return codegen_of_operation(self.functions, self.work, self._is_plain)

    @property
    def _is_plain(self) -> bool:
        """Whether it runs on one device, and has known shapes."""
        return self.mesh is None and not self.is_polymorphic

    def fresh(self) -> str:
        """A new name of an SSA value."""
        self._next += 1
        return f"%{self._next}"

    def unique_name(self, base: str) -> str:
        """A new name of a function: `base`, with a number where the module has one of this name."""
        clean = symbol(base)
        count = self._names.get(clean, 0)
        name = f"{clean}_{count}" if count else clean
        while name in self._names:  # the base of another function ends in this number
            count += 1
            name = f"{clean}_{count}"
        self._names[clean] = count + 1
        self._names.setdefault(name, 1)
        return name

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
        outside = self.work.bytes
        results = body(builder, arguments)
        if not public:
            self.bytes_of[name], self.work.bytes = self.work.bytes - outside, outside
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
        """The module, of this name, in MLIR's generic form."""
        attributes = [POLYMORPHIC] if self.is_polymorphic else []
        devices = 1 if self.mesh is None else self.mesh.size
        attributes += [f"mhlo.num_partitions = {devices} : i32", "mhlo.num_replicas = 1 : i32"]
        functions = self.functions
        if (self.platform == "cpu" or self.is_polymorphic) and has_exponentials(functions):
            functions = guard_exponentials(functions, self.constants)
        definitions = [*self.mesh_definitions(), *self.inlined_meshes, *functions]
        return f"module @{symbol(name)} attributes {{{', '.join(attributes)}}} {{\n" + "\n".join(definitions) + "\n}\n"
