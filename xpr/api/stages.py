"""What a function becomes on its way to a program, which users may follow: traced, lowered, compiled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from xpr import tree
from xpr.api.options import OWN_OPTIONS, check_options
from xpr.api.staging import ShapeDtypeStruct
from xpr.backend import compiler, devices
from xpr.backend.array import Array, buffer_on, result
from xpr.backend.communication import Collective, collectives_of
from xpr.backend.sequence import SequenceExecutable
from xpr.backend.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding
from xpr.backend.shards import PartitionedExecutable
from xpr.backend.stablehlo import Module
from xpr.compile.lower import lower_jaxpr
from xpr.compile.partition import array_at, buffer_at, compile_module, lower_partitioned, mesh_of
from xpr.compile.segmented import Stepwise, stepwise
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from xpr.transforms.boundary import boundary


def given_to_results(jaxpr: Jaxpr, donated: Sequence[int]) -> tuple[list[int], list[int]]:
    """The donated inputs of which each has a result of its own that can take its memory, and those that have none.

    Results of the same type come first, then those of as many bytes. Inputs that nothing reads are in neither list:
    they are kept.
    """
    read = {v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal}
    read.update(v for v in jaxpr.outvars if type(v) is not Literal)
    free = Counter((aval.shape, aval.dtype) for aval in jaxpr.out_avals)
    usable, others, unusable = list[int](), list[int](), list[int]()
    for i in donated:
        aval = jaxpr.invars[i].aval
        if jaxpr.invars[i] in read:
            (usable if free[aval.shape, aval.dtype] else others).append(i)
            free[aval.shape, aval.dtype] -= bool(free[aval.shape, aval.dtype])
    bytes_free = Counter[int]()
    for (shape, dtype), number in free.items():
        bytes_free[math.prod(shape) * dtype.itemsize] += number
    for i in others:
        size = jaxpr.invars[i].aval.size * jaxpr.invars[i].aval.dtype.itemsize
        (usable if bytes_free[size] else unusable).append(i)
        bytes_free[size] -= bool(bytes_free[size])
    return sorted(usable), unusable


class Layout:
    """How constants and arguments, and results of a program lie on the devices of a mesh; None where nobody says."""

    __slots__ = ("mesh", "inputs", "outputs")

    def __init__(self, mesh: Mesh, inputs: Sequence[NamedSharding | None], outputs: Sequence[NamedSharding | None]):
        self.mesh, self.inputs, self.outputs = mesh, inputs, outputs


class Traced:
    """A function traced for one abstract signature: its closed jaxpr and the structures around it.

    >>> import xpr
    >>> xpr.jit(lambda x: x + 1).trace(1.0).jaxpr
    { lambda ; a:f32[]. let b:f32[] = add a 1.0 in (b,) }
    """

    __slots__ = (
        "jaxpr", "in_tree", "out_tree", "name", "names", "donated", "in_shardings", "_options", "_in_steps",
    )  # fmt: skip

    def __init__(
        self, jaxpr: ClosedJaxpr, in_tree: Any, out_tree: Any, name: str, donated: Sequence[int], options: Any,
        in_steps: bool = True, in_shardings: tuple[Any, ...] | None = None,
    ):  # fmt: skip
        self.jaxpr, self.in_tree, self.out_tree = jaxpr, in_tree, out_tree
        self.names: Sequence[str] = [f"argument {i}" for i in range(in_tree.num_leaves)]  # of the arguments, flat
        self.in_shardings = in_shardings  # how arguments lie for which it was traced, None if that makes no difference
        self.name, self.donated, self._options, self._in_steps = name, tuple(donated), options, in_steps

    @property
    def out_info(self) -> Any:
        """The structure of the result, a `ShapeDtypeStruct` at each leaf."""
        avals = self.jaxpr.out_avals
        return tree.unflatten(self.out_tree, [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals])

    def lower(self, device: Any = None, layout: Layout | None = None) -> Lowered:
        """The program as StableHLO, for a device, or for several as a layout says."""
        device = device or devices.default_device()
        shift = len(self.jaxpr.consts)
        donated = [shift + i for i in self.donated]
        jaxpr = self.jaxpr.jaxpr
        if layout is None:
            mesh = mesh_of(jaxpr)
            layout = Layout(mesh, [None] * (shift + len(jaxpr.invars)), [None] * len(jaxpr.outvars)) if mesh else None
        if layout is None:
            steps = stepwise(jaxpr, donated, device) if self._in_steps else None
            return Lowered(self, steps or lower_jaxpr(jaxpr, device.platform, donated), device)
        module = lower_partitioned(jaxpr, layout.mesh, layout.inputs, layout.outputs, donated)
        return Lowered(self, module, device, layout)


class Lowered:
    """A traced function as StableHLO."""

    __slots__ = ("traced", "_program", "_device", "_layout")

    def __init__(self, traced: Traced, program: Module | Stepwise, device: Any, layout: Layout | None = None):
        self.traced, self._program, self._device, self._layout = traced, program, device, layout

    in_tree = property(lambda self: self.traced.in_tree)
    out_tree = property(lambda self: self.traced.out_tree)
    out_info = property(lambda self: self.traced.out_info)

    def as_text(self, dialect: str = "stablehlo") -> str:
        """The StableHLO text; of a program that runs in steps, that of the whole."""
        if dialect != "stablehlo":
            raise ValueError(
                f"A lowered program is StableHLO; {dialect!r} can't be had. compile().as_text() gives HLO."
            )
        module = self._program if isinstance(self._program, Module) else self._program.whole()
        return module.text(self.traced.name)

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """The program compiled for its device."""
        check_options("compile", compiler_options)
        options = {**(self.traced._options or {}), **(compiler_options or {})}
        for name in OWN_OPTIONS & options.keys():
            raise ValueError(f"compile: the program is lowered already; give the compiler option {name!r} to jit.")
        if isinstance(self._program, Stepwise):
            return Compiled(self.traced, self._program.compile(self.traced.name, options or None))
        if self._layout is not None:
            program = compile_module(
                self._program, self.traced.jaxpr.jaxpr, self._layout.inputs, self._layout.outputs, self.traced.name,
                options or None,
            )  # fmt: skip
            return CompiledForSeveral(self.traced, program, self._layout.mesh)
        executable = compiler.compile(
            self.as_text(), self.traced.jaxpr.out_avals, self._device, name=self.traced.name, options=options or None,
            unrolled=self._program.unrolled, callbacks=self._program.callbacks,
        )  # fmt: skip
        return Compiled(self.traced, executable)

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of operations and bytes, after optimization."""
        return self.compile().cost_analysis()


class Compiled:
    """A compiled program, called with arguments of exactly the types it was made for."""

    __slots__ = ("traced", "executable", "constants", "__weakref__")

    def __init__(self, traced: Traced, executable: compiler.Executable | SequenceExecutable):
        self.traced, self.executable = traced, executable
        self.constants = [buffer_on(x, aval_of(x), executable.device) for x in traced.jaxpr.consts]

    in_tree = property(lambda self: self.traced.in_tree)
    out_tree = property(lambda self: self.traced.out_tree)
    out_info = property(lambda self: self.traced.out_info)

    @property
    def input_shardings(self) -> tuple[Any, Any]:
        """How the arguments are to lie on devices: pytrees of shardings, of the positional ones and of the others."""
        return tree.unflatten(self.in_tree, self.places()[0])

    @property
    def output_shardings(self) -> Any:
        """How the results lie on devices: a pytree of shardings."""
        return tree.unflatten(self.out_tree, self.places()[1])

    def places(self) -> tuple[Sequence[Sharding], Sequence[Sharding]]:
        """How arguments and results lie on devices, flat."""
        here = SingleDeviceSharding(self.executable.device)
        return [here] * self.in_tree.num_leaves, [here] * self.out_tree.num_leaves

    def as_text(self) -> str:
        """The optimized program, in HLO."""
        return self.executable.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of operations (flops), bytes accessed and transcendentals."""
        return self.executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """The sizes in bytes of arguments, results and temporaries, and the peak."""
        return self.executable.memory_analysis()

    def collectives(self) -> list[Collective]:
        """What the devices send each other; nothing where there is one."""
        return []

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        if any(isinstance(x, Tracer) for x in leaves):
            raise TypeError(
                f"{self.traced.name}: a compiled program can't be transformed or traced; "
                "call the jitted function instead."
            )
        if in_tree != self.traced.in_tree:
            expected, got = self.traced.in_tree.unflatten(self.traced.jaxpr.in_avals), (args, kwargs)
            lines = [
                line
                for i, part in enumerate(("args", "kwargs"))
                for line in tree.differences(expected[i], got[i], name=part)
            ]
            raise TypeError("\n".join([f"{self.traced.name}: called with other arguments than compiled for:", *lines]))
        for have, want in zip((aval_of(x) for x in leaves), self.traced.jaxpr.in_avals):
            if have.shape != want.shape or have.dtype != want.dtype:
                raise TypeError(self._other_types(leaves))
        return tree.unflatten(self.out_tree, self.run(leaves))

    def _other_types(self, leaves: Sequence[Any]) -> str:
        """What is said of a call with arguments of other types: each that differs, by name."""
        wanted, names = self.traced.jaxpr.in_avals, self.traced.names
        found = [(name, want, aval_of(x)) for name, want, x in zip(names, wanted, leaves)]
        wrong = [each for each in found if (each[1].shape, each[1].dtype) != (each[2].shape, each[2].dtype)]
        width, kinds = max(len(name) for name, _, _ in wrong), max(len(want.str_short()) for _, want, _ in wrong)
        lines = [
            f"  {n:{width}}   compiled for {w.str_short():{kinds}}   called with {h.str_short()}" for n, w, h in wrong
        ]
        first = f"{self.traced.name}: called with other types of arguments than it was compiled for:"
        last = "Convert these arguments, compile another program for them, or call the jitted function, which does."
        return "\n".join([first, *lines, last])

    def check_donated(self, buffers: Sequence[Any]) -> None:
        """Raises ValueError where a buffer that is donated is given twice."""
        times = Counter(map(id, buffers)) if self.traced.donated else {}
        if any(times[id(buffers[len(self.constants) + i])] > 1 for i in self.traced.donated):
            raise ValueError(
                f"{self.traced.name}: an array that is donated was given twice, or is one that the function closes "
                "over. Pass a copy, or don't donate it."
            )

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Runs on flat arguments; gives arrays, those of float0 in NumPy."""
        executable = self.executable
        buffers = self.constants + [buffer_on(x, aval_of(x), executable.device) for x in leaves]
        self.check_donated(buffers)
        for i in self.traced.donated:
            if type(leaves[i]) is Array:
                leaves[i]._host = None  # a view of the buffer from outside would keep XLA from reusing it
        where = None if executable.device is devices.default_device() else executable.device
        results = [result(aval, b, where) for aval, b in zip(executable.out_avals, executable.run(buffers))]
        for i in self.traced.donated:
            if type(leaves[i]) is Array:
                leaves[i].forget()
        return results


class CompiledForSeveral(Compiled):
    """A program compiled for several devices."""

    __slots__ = ("mesh",)

    executable: PartitionedExecutable  # type: ignore[assignment]  # the same methods, for several devices

    def __init__(self, traced: Traced, executable: PartitionedExecutable, mesh: Mesh):
        self.traced, self.executable, self.mesh = traced, executable, mesh
        self.constants = list(map(buffer_at, traced.jaxpr.consts, executable.in_shardings))

    def places(self) -> tuple[Sequence[Sharding], Sequence[Sharding]]:
        return self.executable.in_shardings[len(self.constants) :], self.executable.out_shardings

    def collectives(self) -> list[Collective]:
        """What the devices send each other, as the compiler cut the program: see `Collective`."""
        return collectives_of(self.as_text(), self.mesh.shape)

    def run(self, leaves: Sequence[Any]) -> list[Array]:
        """Runs on flat arguments, which are put in their places first where they lie otherwise."""
        executable, constants = self.executable, self.constants
        buffers = constants + list(map(buffer_at, leaves, executable.in_shardings[len(constants) :]))
        self.check_donated(buffers)
        results = list(map(array_at, executable.out_avals, executable.run(buffers), executable.out_shardings))
        for i in self.traced.donated:
            if type(leaves[i]) is Array:
                leaves[i].forget()
        return results
