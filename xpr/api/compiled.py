"""Compiled programs that users call themselves: the last stage of compiling a function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import starmap, zip_longest
from os import PathLike
from typing import Any

from xpr import tree
from xpr.api.ref_state import RefState
from xpr.api.stage_base import Stage
from xpr.api.user_values import UserValues
from xpr.artifacts.interface import Interface
from xpr.backend import compiler, devices
from xpr.backend.array import Array, forget_donated, layout_of, result
from xpr.backend.communication import Collective, collectives_of
from xpr.backend.layout import Format, Layout, ProgramLayouts, RequestedLayouts, row_major
from xpr.backend.mesh import MeshOfProcesses
from xpr.backend.operands import buffer_on
from xpr.backend.sequence import SequenceExecutable
from xpr.backend.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding, without_mesh_of_one
from xpr.backend.shards import PartitionedExecutable
from xpr.compile.known_calls import KnownCalls, call_known
from xpr.compile.partition import array_at, buffer_at, is_elsewhere
from xpr.compile.placement import to_device
from xpr.compile.relayout import relaid
from xpr.core.avals import aval_of
from xpr.core.interpreter import Tracer
from xpr.errors import DonationError
from xpr.transforms.boundary import boundary, drop_frame
from xpr.transforms.calls import Call
from xpr.transforms.flat import as_array


class Compiled(Stage):
    """A compiled program, called with arguments of exactly the types it was compiled for."""

    __slots__ = ("executable", "constants", "state", "donated", "known", "layouts", "__weakref__")

    def __init__(
        self, interface: Interface, executable: compiler.Executable | SequenceExecutable, consts: Sequence[Any],
        state: RefState | UserValues | None = None, donated: Sequence[int] | None = None,
    ):  # fmt: skip
        self.interface, self.executable, self.state = interface, executable, state
        self.donated, self.known = interface.donated if donated is None else donated, KnownCalls()
        self.layouts: ProgramLayouts | None = None  # of arguments and results; None if all are row-major
        self.constants = [buffer_on(x, aval_of(x), executable.device) for x in consts]
        if isinstance(executable, compiler.CallingExecutable):
            executable.begin_with(self.constants)

    @property
    def input_shardings(self) -> tuple[Any, Any]:
        """The shardings of positional and of keyword arguments, a pytree each."""
        return tree.unflatten(self.in_tree, self.flat_shardings()[0])

    @property
    def output_shardings(self) -> Any:
        """The shardings of the results, a pytree."""
        return tree.unflatten(self.out_tree, self.flat_shardings()[1])

    @property
    def input_formats(self) -> tuple[Any, Any]:
        """The layouts in memory and the shardings of positional and of keyword arguments: a `Format` at each leaf."""
        inputs = () if self.layouts is None else self.layouts.inputs
        return tree.unflatten(self.in_tree, _formats(self.interface.in_avals, self.flat_shardings()[0], inputs))

    @property
    def output_formats(self) -> Any:
        """The layouts in memory and the shardings of the results, a `Format` at each leaf."""
        outputs = () if self.layouts is None else self.layouts.outputs
        return tree.unflatten(self.out_tree, _formats(self.interface.out_avals, self.flat_shardings()[1], outputs))

    def with_layouts(self, asked: RequestedLayouts | None) -> Compiled:
        """The program itself, which was lowered for these layouts, and now knows those that the compiler chose."""
        if asked is not None:
            program, first = self.runtime_executable(), len(self.constants)
            inputs = _chosen(program.get_parameter_layouts()[first:], self.interface.in_avals)
            outputs = _chosen(program.get_output_layouts(), self.interface.out_avals)
            self.layouts = ProgramLayouts(inputs, outputs) if any(inputs) or any(outputs) else None
        return self

    def out_shardings(self) -> Sequence[Any]:
        return self.flat_shardings()[1]

    def runtime_executable(self) -> Any:
        """The `LoadedExecutable` of jaxlib; for a program that runs in steps, its `SequenceExecutable`."""
        program = self.executable
        while (inner := getattr(program, "raw", None)) is not None:
            program = inner
        return program

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the program to a file, for `load_compiled`.

        Args:
          path: the file, which is replaced if it is there.

        Raises:
          NotImplementedError: the program runs in steps or on several devices, calls Python functions, uses refs, or
            has arguments or results that are not row-major.
          ValueError: a class of pytree nodes in its arguments or results is not registered for serialization.

        >>> import tempfile, xpr, xpr.numpy as jnp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     xpr.jit(jnp.sin).lower(jnp.zeros(3)).compile().save(f"{folder}/sine")
        ...     print(xpr.load_compiled(f"{folder}/sine")(jnp.zeros(3)))
        [0. 0. 0.]
        """
        if self.state is not None:
            raise NotImplementedError(
                f"save: {self.interface.name} reads or writes refs, or has values of users' types, which a file "
                "can't hold."
            )
        if self.layouts is not None:
            raise NotImplementedError(
                f"save: {self.interface.name} takes or gives arrays that are not row-major, of which a file does not "
                "tell. Leave the layouts out of in_shardings and out_shardings."
            )
        from xpr.artifacts.compiled_programs import replace_file, write_program  # 10 ms of imports that few need

        replace_file(path, write_program(self.interface, self.executable, self.constants))

    def flat_shardings(self) -> tuple[Sequence[Sharding], Sequence[Sharding]]:
        """The shardings of arguments and results, flat."""
        single = SingleDeviceSharding(self.executable.device)
        return [single] * self.in_tree.num_leaves, [single] * self.out_tree.num_leaves

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
        """The communication between devices; empty for a single one."""
        return []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        results = call_known(self.known, args, kwargs)
        if results is not NotImplemented:
            return results
        try:
            return self._call(args, kwargs)
        except Exception as error:
            drop_frame(error)
            raise

    @boundary
    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The general path, which looks at the types of arguments."""
        call = Call(args, kwargs, {})
        leaves, in_tree = call.leaves, call.in_tree
        if any(isinstance(x, Tracer) for x in leaves):
            raise TypeError(
                f"{self.interface.name}: a compiled program can't be transformed or traced; "
                "call the jitted function instead."
            )
        if in_tree != self.in_tree:
            raise TypeError(self._other_structure(args, kwargs))
        call.typed(list(map(aval_of, leaves)))
        for actual, compiled_for in zip(call.avals, self.interface.in_avals):
            if _kind(actual) != _kind(compiled_for):
                raise TypeError(self._other_types(leaves))
        self.check_shardings(leaves)
        self.check_layouts(leaves)
        results = self.run(leaves)
        if self.state is None and self.layouts is None:
            self.known.remember(call, self.executable, self.constants, self.out_tree, self.donated)
        return tree.unflatten(self.out_tree, results)

    def _other_structure(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The error message for arguments of another structure: what differs, by path."""
        expected_args, expected_kwargs = self.in_tree.unflatten(self.interface.in_avals)
        lines = [
            f"{self.interface.name}: the input pytree does not match the one that it was compiled for:",
            *tree.differences(expected_args, args, name="args"),
            *tree.differences(expected_kwargs, kwargs, name="kwargs"),
        ]
        return "\n".join(lines)

    def _other_types(self, leaves: Sequence[Any]) -> str:
        """The error message for arguments of other types: each that differs, by name."""
        compiled_for, names = self.interface.in_avals, self.interface.names
        pairs = [(name, expected, aval_of(x)) for name, expected, x in zip(names, compiled_for, leaves)]
        wrong = [each for each in pairs if _kind(each[1]) != _kind(each[2])]
        named = [(name, *(aval.str_short(short_dtypes=False) for aval in avals)) for name, *avals in wrong]
        lines = [
            f"Argument '{name}' compiled with {expected} and called with {actual}" for name, expected, actual in named
        ]
        first = f"{self.interface.name}: Argument types differ between the program and this call. The mismatches are:"
        last = "Convert these arguments, compile another program for them, or call the jitted function, which does."
        return "\n".join([first, *lines, last])

    def check_shardings(self, leaves: Sequence[Any]) -> None:
        """Nothing: a program on one device takes arguments from others."""

    def check_layouts(self, leaves: Sequence[Any]) -> None:
        """Raises ValueError where an argument was put on its device with another layout than the program takes."""
        if self.layouts is None:
            return
        lines = []
        for name, x, layout in zip(self.interface.names, leaves, self.layouts.inputs):
            if layout is not None and type(x) is Array and x.committed and layout_of(x) != layout:
                own, space = (layout_of(x) or row_major(x.aval.ndim)).major_to_minor, " " * len(name)
                lines.append(f"  {name}   compiled for {layout.major_to_minor}\n  {space}   called with  {own}")
        if lines:
            raise ValueError(
                f"{self.interface.name}: Computation was compiled for input layouts that disagree with the layouts "
                f"({len(lines)} of {len(leaves)}) of arguments passed to it. Here are the mismatches, axes from the "
                "slowest to the fastest:\n"
                + "\n".join(lines)
                + "\nPut the arguments there before, by xpr.device_put(x, format), with the formats of `input_formats`."
            )

    def check_donated(self, buffers: Sequence[Any], names: Sequence[str] | None = None) -> None:
        """Raises DonationError if a donated buffer is passed twice; `names` are those of the arguments."""
        if not self.donated:
            return
        times, first = Counter(map(id, buffers)), len(self.constants)
        twice = next((i for i in self.donated if times[id(buffers[first + i])] > 1), None)
        if twice is None:
            return
        names = self.interface.names if names is None else names
        other = next(i for i, b in enumerate(buffers) if b is buffers[first + twice] and i != first + twice) - first
        raise DonationError(
            f"{self.interface.name}: an array that is donated was given twice: {names[twice]} is the same array as "
            f"{names[other] if other >= 0 else 'one that the function closes over'}. Pass a copy, or don't donate it."
        ) from None  # the same error, where it is raised again with better names

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Runs on flat arguments; returns arrays, NumPy ones for float0. Writes refs."""
        if self.state is None:
            return self.run_on_values(leaves)
        return self.state.store(leaves, self.run_on_values(self.state.inputs(leaves, self.donated)))

    def buffers(self, leaves: Sequence[Any]) -> list[Any]:
        """What the program takes, its constants and arguments, as buffers on its device."""
        device, inputs = self.executable.device, (self.layouts or _ROW_MAJOR).inputs
        return self.constants + [
            buffer_on(x, aval_of(x), device) if layout is None else _buffer_with_layout(x, device, layout)
            for x, layout in zip_longest(leaves, inputs)
        ]

    def run_on_values(self, leaves: Sequence[Any]) -> list[Any]:
        """Runs the program on its arguments, arrays or numbers."""
        executable = self.executable
        device, outputs = executable.device, (self.layouts or _ROW_MAJOR).outputs
        buffers = self.buffers(leaves)
        self.check_donated(buffers)
        for i in self.donated:
            if type(leaves[i]) is Array:
                leaves[i]._host = None  # an outside view of the buffer would prevent XLA from reusing it
        target = None if device is devices.default_device() else device
        outs = zip_longest(executable.out_avals, executable.run(buffers), outputs)
        results = [result(aval, b, target, layout) for aval, b, layout in outs]
        forget_donated(leaves, self.donated)
        return results


_ROW_MAJOR = ProgramLayouts((), ())


def _kind(aval: Any) -> Any:
    """What must agree of the type of an argument."""
    return aval if aval.is_high else (type(aval), aval.shape, aval.dtype)


def _formats(avals: Sequence[Any], shardings: Sequence[Sharding], layouts: Sequence[Layout | None]) -> list[Format]:
    each = zip_longest(avals, shardings, layouts)
    return [Format(layout or row_major(aval.ndim), sharding) for aval, sharding, layout in each]


def _chosen(layouts: Sequence[Any], avals: Sequence[Any]) -> tuple[Layout | None, ...]:
    """The layouts of arguments or results, from those that jaxlib gives; None for row-major ones."""
    orders = [Layout.from_pjrt_layout(each).major_to_minor[: aval.ndim] for each, aval in zip(layouts, avals)]
    return tuple([None if order == tuple(range(len(order))) else Layout(order, ()) for order in orders])


def _buffer_with_layout(x: Any, target: Any, layout: Layout) -> Any:
    """The buffer of a value with a layout, on a device or with a sharding."""
    return relaid(to_device(as_array(x), target), layout, "jit", "an argument").present_buffer()


class CompiledForSeveral(Compiled):
    """A program compiled for several devices."""

    __slots__ = ("mesh", "shardings")

    executable: PartitionedExecutable  # type: ignore[assignment]  # the same methods, for several devices

    def __init__(
        self, interface: Interface, executable: PartitionedExecutable, consts: Sequence[Any], mesh: Mesh,
        state: RefState | UserValues | None = None,
    ):  # fmt: skip
        self.interface, self.executable, self.mesh, self.state = interface, executable, mesh, state
        self.donated, self.known, self.layouts = interface.donated, KnownCalls(), None
        self.constants = list(map(buffer_at, consts, executable.in_shardings))
        self.shardings = (
            list(map(without_mesh_of_one, self.argument_shardings())),
            [without_mesh_of_one(each) for each in executable.out_shardings],
        )

    def argument_shardings(self) -> Sequence[NamedSharding]:
        """The sharding with which the program takes each argument."""
        return self.executable.in_shardings[len(self.constants) :]

    def flat_shardings(self) -> tuple[Sequence[Sharding], Sequence[Sharding]]:
        return self.shardings

    def check_shardings(self, leaves: Sequence[Any]) -> None:
        """Raises ValueError where an argument was put on devices with another sharding than the program takes."""
        if isinstance(self.mesh, MeshOfProcesses):
            return
        each = zip(self.interface.names, leaves, self.argument_shardings())
        if wrong := [(name, x, sharding) for name, x, sharding in each if is_elsewhere(x, sharding)]:
            lines = [
                f"  {name}   compiled for {sharding}\n  {' ' * len(name)}   called with  {x.sharding}"
                for name, x, sharding in wrong
            ]
            count = f"{len(wrong)} of {len(leaves)}"
            raise ValueError(
                f"{self.interface.name}: Computation was compiled for input shardings over {self.mesh.text} that "
                f"disagree with the shardings ({count}) of arguments passed to it. Here are the mismatches:\n"
                + "\n".join(lines)
                + "\nPut the arguments there before, by xpr.device_put, or call the jitted function, which compiles "
                "for theirs."
            )

    def collectives(self) -> list[Collective]:
        """The communication between devices in the partitioned program: see `Collective`."""
        return collectives_of(self.as_text(), self.mesh.shape)

    def buffers(self, leaves: Sequence[Any]) -> list[Any]:
        """What the program takes, its constants and arguments, as buffers on its devices."""
        inputs = (self.layouts or _ROW_MAJOR).inputs
        return self.constants + [
            buffer_at(x, sharding) if layout is None else _buffer_with_layout(x, sharding, layout)
            for x, sharding, layout in zip_longest(leaves, self.argument_shardings(), inputs)
        ]

    def run_on_values(self, leaves: Sequence[Any]) -> list[Array]:
        """Runs on flat arguments, resharding them first where needed."""
        executable, outputs = self.executable, (self.layouts or _ROW_MAJOR).outputs
        buffers = self.buffers(leaves)
        self.check_donated(buffers)
        outs = zip_longest(executable.out_avals, executable.run(buffers), executable.placements, outputs)
        results = list(starmap(array_at, outs))
        forget_donated(leaves, self.donated)
        return results
