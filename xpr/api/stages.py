"""The stages of compiling a function, which users can inspect: `Traced`, `Lowered`, and then `Compiled`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from xpr import tree
from xpr.api.compiled import Compiled, CompiledForSeveral
from xpr.api.options import OWN_OPTIONS, check_options
from xpr.api.ref_state import RefState
from xpr.api.stage_base import Stage
from xpr.api.user_values import UserValues, user_values
from xpr.artifacts.interface import Interface
from xpr.backend import compiler, devices, portable
from xpr.backend.layout import Format, Layout, RequestedLayouts
from xpr.backend.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xpr.backend.stablehlo_module import Module
from xpr.compile.lower import MainAttributes, lower_jaxpr
from xpr.compile.partition import compile_module, mesh_of
from xpr.compile.segmented import SegmentedProgram, lower_segmented
from xpr.compile.tiering import is_tiered
from xpr.config import settings
from xpr.control.xla_call import call as call_jaxpr
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from xpr.core.meshes import AbstractMesh
from xpr.errors import DeviceNotFound
from xpr.garbage_collection import with_rare_collections
from xpr.passes.discharge import uses_of_refs
from xpr.transforms.boundary import boundary
from xpr.transforms.on_arrays import arrays_alone


def match_donations(jaxpr: Jaxpr, donated: Sequence[int]) -> tuple[list[int], list[int]]:
    """The donated inputs whose memory a result can use, with a different result for each, and those without one.

    Results of the same type come first, then those of as many bytes. Unused inputs are in neither list: they are
    kept.
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


class ProgramShardings:
    """The mesh of a program on several devices, and the shardings of its inputs and results; None where unspecified.

    Inputs are constants, and then arguments.
    """

    __slots__ = ("mesh", "inputs", "outputs")

    def __init__(self, mesh: Mesh, inputs: Sequence[NamedSharding | None], outputs: Sequence[NamedSharding | None]):
        self.mesh, self.inputs, self.outputs = mesh, inputs, outputs

    def on(self, devices: Sequence[Any]) -> ProgramShardings:
        """The shardings over these devices, in place of those of the mesh, which may have none."""
        mesh = Mesh(np.asarray(devices).reshape(self.mesh.axis_sizes), self.mesh.axis_names, self.mesh.axis_types)
        inputs, outputs = ([each and each.update(mesh) for each in some] for some in (self.inputs, self.outputs))
        return ProgramShardings(mesh, inputs, outputs)


class Traced(Stage):
    """A function traced for one abstract signature: its closed jaxpr and the structures around it.

    >>> import xpr
    >>> xpr.jit(lambda x: x + 1).trace(1.0).jaxpr
    { lambda ; a:f32[]. let b:f32[] = add a 1.0 in (b,) }
    """

    __slots__ = (
        "jaxpr", "is_high", "refs", "in_shardings", "_compiled", "_options", "_in_steps", "_device", "_shardings",
        "_layouts", "default_device",
    )  # fmt: skip

    def __init__(
        self, jaxpr: ClosedJaxpr, in_tree: Any, out_tree: Any, name: str, donated: Sequence[int], options: Any,
        in_steps: bool = True, in_shardings: tuple[Any, ...] | None = None, asked: Sequence[int] | None = None,
    ):  # fmt: skip
        self.jaxpr = jaxpr
        self.refs = RefState(jaxpr) if uses_of_refs(jaxpr.jaxpr).any else None
        program = self.refs.program if self.refs else jaxpr
        self._compiled: tuple[ClosedJaxpr, RefState | UserValues | None] | None = None
        self.is_high = program.is_high  # whether it computes with values of users' types
        if not self.is_high:
            self._compiled = program, self.refs
        names = [f"argument {i}" for i in range(in_tree.num_leaves)]
        self.interface = Interface(
            name, in_tree, out_tree, jaxpr.in_avals, jaxpr.out_avals, names, tuple(donated), asked
        )
        self.in_shardings = in_shardings  # of the arguments it was traced for; None if irrelevant
        self._options, self._in_steps = options, in_steps
        self._device: Any = None
        self.default_device: Any = None  # to be lowered for where none was asked for; None for the platform's
        self._shardings: ProgramShardings | None = None
        self._layouts: RequestedLayouts | None = None

    @property
    def has_user_values(self) -> bool:
        """Whether it takes, returns or closes over values of users' types."""
        jaxpr = self.jaxpr.jaxpr
        return any(v.aval.is_high for v in (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars))

    @property
    def closed_over(self) -> list[Any]:
        """The refs that it closes over, or the mutable values of users' types."""
        if self.refs is not None:
            return self.refs.closed_over
        return [x for v, x in zip(self.jaxpr.jaxpr.constvars, self.jaxpr.consts) if v.aval.has_qdd]

    @property
    def program(self) -> ClosedJaxpr:
        """The program that is compiled: of arrays alone."""
        return self._to_compile()[0]

    @property
    def state(self) -> RefState | UserValues | None:
        """What turns the arguments and results of the function into those of the program; None if they are the same."""
        return self._to_compile()[1]

    @property
    def lojax(self) -> Traced:
        """The same with the program that is compiled as its jaxpr, by JAX's name: it is one of arrays alone."""
        made = self.placed(self.interface.names, self._device, self._shardings, self._layouts)
        made.jaxpr, made.is_high = self.program, False
        return made

    def _to_compile(self) -> tuple[ClosedJaxpr, RefState | UserValues | None]:
        if self._compiled is None:  # values of users' types are replaced when they have to be
            program = self.refs.program if self.refs else self.jaxpr
            values = user_values(program, self.refs)
            if values is None:
                self._compiled = arrays_alone(program), self.refs
            else:
                self._compiled = values.program, values
        return self._compiled

    def placed(
        self, names: Sequence[str], device: Any, shardings: ProgramShardings | None,
        layouts: RequestedLayouts | None = None,
    ) -> Traced:  # fmt: skip
        """A copy with the names of arguments, to be lowered for a device, or for several with shardings."""
        made = object.__new__(Traced)
        made.jaxpr, made._compiled, made.refs, made.is_high = self.jaxpr, self._compiled, self.refs, self.is_high
        made.in_shardings, made._options = self.in_shardings, self._options
        made.interface, made._in_steps = self.interface._replace(names=names), self._in_steps
        made._device, made._shardings, made._layouts = device, shardings, layouts
        made.default_device = self.default_device
        return made

    @property
    def fun_name(self) -> str:
        """The name of the function."""
        return self.interface.name

    @property
    def out_avals(self) -> Any:
        """The types of the results, a `ShapedArray` at each leaf."""
        return tree.unflatten(self.out_tree, self.interface.out_avals)

    def out_shardings(self) -> Sequence[Any]:
        program = None if self.has_user_values else self.program_shardings()
        if program is not None:
            shardings: Sequence[Any] = program.outputs
        elif self._device is not None:
            shardings = [SingleDeviceSharding(self._device)] * len(self.interface.out_avals)
        else:
            shardings = super().out_shardings()
        if self._layouts is None:
            return shardings
        each = zip(shardings, self._layouts.outputs)
        return [Format(layout, s) if isinstance(layout, Layout) and s is not None else s for s, layout in each]

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function, as it was traced, of other values."""
        leaves, in_tree = tree.flatten((args, kwargs))
        if in_tree != self.in_tree:
            raise TypeError(
                f"{self.fun_name}: it was traced for arguments of the structure {self.in_tree}, and is called with "
                f"{in_tree}."
            )
        return tree.unflatten(self.out_tree, call_jaxpr(self.jaxpr, leaves, self.fun_name))

    @with_rare_collections
    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """The program as StableHLO.

        Args:
          lowering_platforms: "cpu", "cuda", "rocm" or "tpu", or several of them: the program then takes the index of
            the platform as its first argument. None for the platform that it is to run on, or that of the
            `AbstractDevice` of the current mesh, where it has no devices.

        Returns:
          The lowered program.

        Raises:
          UnsupportedRule: an operation has no lowering for a platform.
        """
        mesh = settings.mesh
        if lowering_platforms is None and type(mesh) is AbstractMesh and mesh.abstract_device is not None:
            lowering_platforms = [mesh.abstract_device.platform]
        if lowering_platforms is None and any(aval.is_symbolic for aval in self.program.in_avals):
            lowering_platforms = [self._target().platform]
        if lowering_platforms is not None:
            platforms = portable.checked_platforms(lowering_platforms)
            module = self._module_for_platforms(platforms)
            return Lowered(self, module, None, self._shardings, platforms)
        device = self._target()
        in_steps = self._in_steps and self._layouts is None
        if self._shardings is None and in_steps and mesh_of(self.program.jaxpr) is None:
            segmented = lower_segmented(self.program.jaxpr, self._donated(), device)
            if segmented is not None:
                return Lowered(self, segmented, device, None, (device.platform,))
        shardings = self.program_shardings()
        if shardings is not None and isinstance(shardings.mesh, Mesh):
            device = shardings.mesh.flat[0]
        module = self._module(device.platform)
        if self._layouts is not None and module.callbacks:
            self._refuse_layouts()
            return self.placed(self.interface.names, self._device, self._shardings).lower()
        return Lowered(self, module, device, shardings, (device.platform,))

    def _target(self) -> Any:
        """The device to lower for, where the program is for one."""
        return self._device or self.default_device or devices.default_device()

    def _refuse_layouts(self) -> None:
        """Raises NotImplementedError where one is asked for; the compiler is free to choose row-major ones."""
        layouts = [each for each in chain(*self._layouts or ()) if isinstance(each, Layout)]
        if layouts:
            raise NotImplementedError(
                f"{self.interface.name} calls Python functions, so that all of its arguments and results are "
                f"row-major, and the layout {layouts[0]} is asked for. Leave it out, and give arrays that layout by "
                "xpr.device_put before or after the call."
            )

    def _donated(self) -> list[int]:
        """The positions of donated arguments of `main`, which takes constants first."""
        return [len(self.program.consts) + i for i in self.donated()]

    def donated(self) -> list[int]:
        """The positions of donated arguments, the values of refs among them where the program is on one device."""
        refs = () if self.state is None or self.program_shardings() is not None else self.state.donated
        return [*self.interface.donated, *refs]

    def program_shardings(self) -> ProgramShardings | None:
        """The shardings of a program on several devices; None for one device."""
        if self._shardings is not None:
            return self._shardings
        jaxpr = self.program.jaxpr
        mesh = mesh_of(jaxpr)
        inputs = [None] * (len(jaxpr.constvars) + len(jaxpr.invars))
        return ProgramShardings(mesh, inputs, [None] * len(jaxpr.outvars)) if mesh else None

    def _attributes(self) -> tuple[MainAttributes, Mesh | None]:
        """The attributes of the arguments and results of `main`, and the mesh of a program on several devices."""
        shardings, layouts = self.program_shardings(), self._layouts
        attributes = MainAttributes(self._donated())
        if layouts is not None:
            inputs = (*[None] * len(self.program.consts), *layouts.inputs)
            attributes = attributes._replace(in_layouts=inputs, out_layouts=layouts.outputs)
        if shardings is None:
            return attributes, None
        return attributes._replace(in_shardings=shardings.inputs, out_shardings=shardings.outputs), shardings.mesh

    def _named_attributes(self) -> tuple[MainAttributes, Mesh | None]:
        """The same with the names of the arguments."""
        attributes, mesh = self._attributes()
        constants = [f"constant {i}" for i in range(len(self.program.consts))]
        return attributes._replace(names=[*constants, *self.interface.names]), mesh

    def _module(self, platform: str) -> Module:
        return lower_jaxpr(self.program.jaxpr, platform, *self._attributes())

    def _module_for_platforms(self, platforms: Sequence[str], located: bool = False) -> Module:
        """The module for several platforms, or symbolic sizes; `located`: with names of scopes and source lines."""
        from xpr.compile.platforms import lower_for_platforms  # with what solves equations of dimensions, 2 ms

        scopes = (f"jit({self.interface.name})",) if located else None
        return lower_for_platforms(self.program.jaxpr, platforms, *self._named_attributes(), scopes=scopes)


class Lowered(Stage):
    """A traced function as StableHLO."""

    __slots__ = ("traced", "_program", "_device", "_shardings", "_platforms")

    def __init__(
        self, traced: Traced, program: Module | SegmentedProgram, device: Any, shardings: ProgramShardings | None,
        platforms: Sequence[str],
    ):  # fmt: skip
        self.traced, self.interface, self._platforms = traced, traced.interface, tuple(platforms)
        self._program, self._device, self._shardings = program, device, shardings

    def out_shardings(self) -> Sequence[Any]:
        return self.traced.out_shardings()

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The text of the program; of the whole program, if it runs in steps.

        Args:
          dialect: "stablehlo", which None means, or "hlo".
          debug_info: whether each operation has the user's line that it comes from, and the names of the scopes, calls
            and transformations around: `jit(step)/transpose(jvp(layer))/while/body/mul`.

        Returns:
          The text as MLIR, or XLA, prints it.

        Raises:
          ValueError: it is another dialect.
        """
        if _checked(dialect) == "stablehlo":
            return portable.printed(self._text(debug_info), debug_info)
        return portable.hlo_text(self._text(debug_info), debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The program as an object of jaxlib.

        Args:
          dialect: "stablehlo", which None means, for a `jaxlib.mlir.ir.Module`, or "hlo" for an `XlaComputation`. Its
            operations have the locations that `as_text(debug_info=True)` shows.

        Returns:
          The object, which is new in each call.

        Raises:
          ValueError: it is another dialect.
        """
        read = portable.parse if _checked(dialect) == "stablehlo" else portable.hlo
        return read(self._text(located=True))

    def _text(self, located: bool = False) -> str:
        """The StableHLO text, as it was written."""
        if located:
            return self.traced._module_for_platforms(self._platforms, located=True).text(self.interface.name)
        module = self._program if isinstance(self._program, Module) else self._program.whole()
        return module.text(self.interface.name)

    def compile(
        self, compiler_options: dict[str, Any] | None = None, *, device_assignment: Sequence[Any] | None = None
    ) -> Compiled:
        """The program compiled for its device.

        Args:
          compiler_options: XLA's options by name, in addition to those that `jit` was given.
          device_assignment: the device to compile for, in a tuple; or the devices of a program that was lowered for a
            mesh without devices, in their order along its axes, whatever platform it was lowered for. None for what
            it was lowered for.

        Returns:
          The compiled program.

        Raises:
          ValueError: there is no such option, the program is of another platform or of several, or it is to run on
            another number of devices than it was lowered for.
        """
        return self._compiled(compiler_options, device_assignment)

    def _compiled(
        self, compiler_options: dict[str, Any] | None = None, device_assignment: Sequence[Any] | None = None,
        may_be_tiered: bool = False,
    ) -> Compiled:  # fmt: skip
        """The program of `compile`; with `may_be_tiered` for a call, which should return soon."""
        check_options("compile", compiler_options)
        options = {**(self.traced._options or {}), **(compiler_options or {})}
        for name in OWN_OPTIONS & options.keys():
            raise ValueError(f"compile: the program is lowered already; give the compiler option {name!r} to jit.")
        if device_assignment is not None and self._shardings is not None and not isinstance(self._shardings.mesh, Mesh):
            shardings = self._over(device_assignment, self._shardings)
            placed = self.traced.placed(self.interface.names, None, shardings, self.traced._layouts)
            return placed.lower().compile(compiler_options)
        if self._shardings is not None and not isinstance(self._shardings.mesh, Mesh):
            raise DeviceNotFound(
                f"compile: device_assignment cannot be `None` during compilation, as {self.interface.name} was "
                f"lowered for {self._shardings.mesh!r}, which has no devices. Pass {self._shardings.mesh.size} of "
                "them, in their order along its axes; or lower or call it for a Mesh, as inside of xpr.set_mesh(mesh)."
            )
        device = self._compiled_on(device_assignment)
        name, consts, state = self.interface.name, self.traced.program.consts, self.traced.state
        if isinstance(self._program, SegmentedProgram):
            if device is not self._device:
                return self.traced.placed(self.interface.names, device, None).lower().compile(compiler_options)
            segments = self._program.compile(name, options or None, may_be_tiered)
            return Compiled(self.interface, segments, consts, state, self.traced.donated())
        if self._shardings is not None:
            program = compile_module(
                self._program,
                self.traced.program.jaxpr,
                self._shardings.inputs,
                self._shardings.outputs,
                name,
                options or None,
            )
            compiled: Compiled = CompiledForSeveral(self.interface, program, consts, self._shardings.mesh, state)
            return compiled.with_layouts(self.traced._layouts)
        executable = compiler.compile(
            self._text(), self.traced.program.out_avals, device, name=name, options=options or None,
            codegen=self._program.codegen, callbacks=self._program.callbacks,
            calls_expected=self._program.calls_expected,
            is_tiered=may_be_tiered and self.traced._layouts is None and is_tiered(self.traced.program.jaxpr),
        )  # fmt: skip
        return Compiled(self.interface, executable, consts, state, self.traced.donated()).with_layouts(
            self.traced._layouts
        )

    def _over(self, assignment: Sequence[Any], shardings: ProgramShardings) -> ProgramShardings:
        """The shardings, which are over a mesh without devices, over some.

        Raises:
          ValueError: they are not as many.
        """
        if len(assignment) != shardings.mesh.size:
            raise ValueError(
                f"compile: The size of abstract mesh {shardings.mesh.size}, of {shardings.mesh.text}, for which "
                f"{self.interface.name} was lowered, must match the length of device assignment: {len(assignment)}."
            )
        return shardings.on(assignment)

    def _compiled_on(self, assignment: Sequence[Any] | None) -> Any:
        """The device to compile for.

        Raises:
          ValueError: the program is not for one device of its platform.
        """
        name = self.interface.name
        symbolic = [aval.str_short() for aval in self.traced.program.in_avals if aval.is_symbolic]
        if symbolic:
            raise ValueError(
                f"compile: {name} was lowered for arguments of symbolic shapes, {', '.join(symbolic)}, and is compiled "
                "for constant ones. Export it (xpr.export): a call of what was exported compiles it for its arguments."
            )
        if assignment is None:
            device = self._device or devices.default_device()
        elif len(assignment) == 1 and self._shardings is None:
            device = assignment[0]
        else:
            raise ValueError(
                f"compile: {name} was lowered for {self._shardings.mesh.size if self._shardings else 1} devices, and "
                f"device_assignment has {len(assignment)}. Only a program on one device can be compiled for another."
            )
        if self._platforms != (device.platform,):
            raise ValueError(
                f"compile: {name} was lowered for {', '.join(self._platforms)}, and is to run on {device}. Lower it "
                "without lowering_platforms, or export it to run elsewhere: see xpr.export."
            )
        return device

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of operations (flops), bytes accessed and transcendentals, before it optimizes."""
        return portable.cost_analysis(self._text())


def _checked(dialect: str | None) -> str:
    """Raises ValueError if there is no such dialect."""
    if dialect not in (None, "stablehlo", "hlo"):
        raise ValueError(f'There is no dialect {dialect!r} of lowered programs: it is "stablehlo" or "hlo".')
    return dialect or "stablehlo"
