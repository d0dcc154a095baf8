"""Calls of jitted functions whose programs a process finds on disk, without tracing: see docs/design/second-start.md.

The key of a call is a hash of the function's fingerprint, of the arguments' structure and types, and of what all traces
depend on. Under it are kept the structure and the types of the results, the small constants, and which programs of the
cache on disk run on which values. A function without a fingerprint is traced, and so is one whose trace had effects.
"""

from __future__ import annotations

import contextlib
import marshal
from collections.abc import Iterator
from typing import Any

import numpy as np

from xpr import key_types
from xpr.api.compiled import Compiled
from xpr.api.stages import Traced
from xpr.artifacts.interface import Interface
from xpr.backend import cache, compiler, processes
from xpr.backend.array import Array
from xpr.backend.compiler import Executable, StoredProgram
from xpr.backend.sequence import Run, SequenceExecutable
from xpr.backend.sharding import NamedSharding
from xpr.compile.argument_shardings import ArgumentShardings
from xpr.compile.segmented import in_parallel
from xpr.core.avals import ShapedArray
from xpr.core.function_caches import Recording, recorded
from xpr.core.interpreter import context
from xpr.core.source import describe_function
from xpr.fingerprint.pure import library
from xpr.fingerprint.structures import read_structure, written_structure
from xpr.fingerprint.surroundings import look_ahead, releases, setting_in_the_way, surroundings
from xpr.fingerprint.walk import Refused, Walk, nodes_of
from xpr.notices import notices
from xpr.passes.structure import structure
from xpr.transforms.calls import Call
from xpr.tree_def import PyTreeDef

LARGEST_CONSTANTS = 1 << 22  # bytes of the constants of a program that are kept with a call


class StoredCall:
    """A call of a jitted function, to be looked for in the cache on disk, or put there.

    Attributes:
      reason: why it can't be: the call is traced in each process. None as long as there is no reason.
    """

    def __init__(self, jitted: Any, call: Call, device: Any):
        self.jitted, self.call, self.device = jitted, call, device
        self.reason: str | None = None
        self.notices = notices()
        self.recording = Recording()
        self.looking: Any = None  # the thread of `look_ahead`
        try:
            self.key, self.walk = self.find_key()
        except Refused as error:
            self.reason = str(error)

    def find_key(self) -> tuple[str, Walk]:
        """The name of the file, and the walk, which has the objects and the users' classes that the function reaches.

        Raises:
          Refused: the function has no fingerprint, or the call depends on more than it.
        """
        jitted, call, device = self.jitted, self.call, self.device
        check_circumstances(jitted)
        if type(device) is NamedSharding:
            raise Refused("it runs on several devices")
        walk = Walk()
        with refusing_errors():
            visit_function(walk, jitted)
            if any(walk.has_visited(call.leaves[i]) for i in jitted.donated_leaves(call)):
                raise Refused("an array that it closes over is donated")
            walk.structure_of_arguments(call.in_tree, "the arguments' structure")
            for position, value in call.static.items():
                walk.token(position)
                walk.visit(value, f"static argument {position}")
            for leaf, aval in zip(call.leaves, call.avals):
                walk.token(*_written(aval), type(leaf) is Array and leaf._device is not None)
            walk.token(*surroundings(), *cache.circumstances(device))
            return walk.digest().hex(), walk

    def load(self) -> Compiled | None:
        """The compiled program from disk; None where it isn't there."""
        if self.reason is not None:
            return None
        content = cache.read_call(self.key)
        if content is not None:
            try:
                compiled = self.compiled(marshal.loads(content))
            except Exception:  # a class isn't there, say, or what its instances are made by raises an error
                compiled = None
            if compiled is not None:
                return compiled
        self.looking = look_ahead()  # for `save`, while the program is compiled
        return None

    def compiled(self, about: dict[str, Any]) -> Compiled | None:
        """The compiled program that a file tells of; None where a program is not on disk any more."""
        name, call, device = self.jitted.name, self.call, self.device
        out_avals = list(map(_read_aval, about["out_avals"]))
        constants = [_read_constant(each) for each in about["constants"]]

        def loaded(program: Any) -> Any:
            stored, avals = program
            return compiler.load_stored(StoredProgram(*stored), list(map(_read_aval, avals)), device, name)

        looking = look_ahead()
        programs: list[Any] = in_parallel(loaded, about["programs"])
        if looking is not None:
            looking.join()
        if None in programs or library.check() is not None or releases() != about["releases"]:
            return None
        executable: Any = programs[0]
        if about["runs"] is not None:
            runs = [Run(programs[i], *rest) for i, *rest in about["runs"]]
            numbers = [each.buffer for each in map(_read_constant, about["numbers"])]
            in_avals = [*(each.aval for each in constants), *call.avals]
            executable = SequenceExecutable(
                runs, numbers, about["size"], about["outs"], in_avals, out_avals, device, name
            )
        out_tree = read_structure(about["out_tree"], self.walk.reached)
        _check_classes(out_tree, self.walk.classes)
        names = [f"argument {i}" for i in range(call.in_tree.num_leaves)]
        interface = Interface(name, call.in_tree, out_tree, call.avals, out_avals, names, tuple(about["donated"]))
        return Compiled(interface, executable, constants, None, about["donated"])

    def save(self, traced: Traced, compiled: Compiled) -> None:
        """Puts the call on disk, if nothing is in the way."""
        if self.reason is not None:
            return
        if self.looking is not None:
            self.looking.join()
        try:
            self.check_trace(traced, compiled)
            content = marshal.dumps(self.described(traced, compiled))
        except Refused as error:
            self.reason = str(error)
            return
        cache.write_call(self.key, content)

    def check_trace(self, traced: Traced, compiled: Compiled) -> None:
        """Raises Refused where tracing showed something that the key doesn't tell."""
        if type(compiled) is not Compiled or traced.in_shardings is not None:
            raise Refused("it runs on several devices")
        if traced.state is not None:
            raise Refused("it reads or writes refs, or has values of users' types")
        if notices() != self.notices:
            raise Refused("a warning was given while it was traced")
        check_library()
        if self.find_key()[0] != self.key:
            raise Refused("tracing it changes what it reads: a list, a dict or an object outside of it")
        if self.recording.reused is not None:
            self.check_anew(traced, self.recording.reused)

    def check_anew(self, traced: Traced, reused: Any) -> None:
        """Raises Refused where the function, traced with all that it calls, isn't what it was with an older trace."""
        with refusing_errors(), recorded(Recording(anew=True)):
            again = self.jitted.newly_traced(self.call, ArgumentShardings(self.call.leaves))
            is_same = structure(again.jaxpr, True) == structure(traced.jaxpr, True)
            is_same = is_same and again.out_tree == traced.out_tree
        if not is_same:
            raise Refused(
                f"it uses an earlier trace of {describe_function(reused)}, which would be another one by now, or can't "
                "be compared"
            )

    def described(self, traced: Traced, compiled: Compiled) -> dict[str, Any]:
        """The record of the call, from which `compiled` makes the program, in types that marshal writes.

        Raises:
          Refused: the program has what can't be written.
        """
        consts, executable = traced.program.consts, compiled.executable
        _check_classes(compiled.out_tree, self.walk.classes)
        if sum(_numbers(each).nbytes for each in consts) > LARGEST_CONSTANTS:
            raise Refused(f"the arrays that it closes over have more than {LARGEST_CONSTANTS:,} bytes")
        about: dict[str, Any] = {
            "out_tree": written_structure(compiled.out_tree, self.walk.reached),
            "out_avals": list(map(_written, compiled.interface.out_avals)),
            "constants": list(map(_written_constant, consts)),
            "donated": list(compiled.donated),
            "releases": releases(),
            "runs": None,
        }
        if isinstance(executable, SequenceExecutable):
            programs = list(executable.times())
            about["runs"] = [
                (programs.index(r.program), list(r.operands), list(r.results), list(r.dead)) for r in executable.runs
            ]
            about["numbers"] = [_written_constant(each) for each in map(_of_buffer, executable.numbers)]
            about["size"], about["outs"] = executable.size, list(executable.outs)
        else:
            programs = [executable]
        about["programs"] = [(_stored(each), list(map(_written, each.out_avals))) for each in programs]
        return about


def check_circumstances(jitted: Any) -> None:
    """Raises Refused where calls of a function are not looked for on disk, whatever its code."""
    if jitted.options.in_shardings is not None or jitted.options.out_shardings is not None:
        raise Refused("jit was given shardings")
    if context.axes or processes.group() is not None:
        raise Refused("it is mapped over an axis, or runs in several processes")
    if (name := setting_in_the_way()) is not None:
        raise Refused(f"the setting {name} is on")


@contextlib.contextmanager
def refusing_errors() -> Iterator[None]:
    """Raises Refused in place of whatever the objects raise that a fingerprint looks at."""
    try:
        yield
    except Refused:
        raise
    except RecursionError:
        raise Refused("it reaches objects that are nested too deeply") from None
    except Exception as error:
        raise Refused(f"looking at what it reads raises {type(error).__name__}: {error}") from None


def check_library() -> None:
    """Raises Refused where a function of xpr was replaced."""
    if (name := library.check()) is not None:
        raise Refused(f"{name} was replaced, which is xpr's")


def visit_function(walk: Walk, jitted: Any) -> None:
    """Adds the function and the options of `jit`."""
    walk.token("xpr call 2", jitted.name)
    walk.visit(jitted, f"jit of {jitted.name}")


def _check_classes(treedef: PyTreeDef, classes: dict[tuple[str, str], type]) -> None:
    """Raises Refused where a node of the result is of a class that is no part of the fingerprint."""
    for _, _, data, _, node_type, *_ in nodes_of(treedef):
        for kind in (data, node_type):
            if isinstance(kind, type) and classes.get((kind.__module__, kind.__qualname__)) is not kind:
                raise Refused(f"its result has a node of {kind.__qualname__}")


def _written(aval: ShapedArray) -> tuple[Any, ...]:
    if type(aval) is not ShapedArray or aval.is_symbolic:
        raise Refused(f"an argument or a result is of type {aval.str_short()}")
    dtype = aval.dtype
    name = str(dtype.name)
    known = key_types.key_type_of_text(name) if isinstance(dtype, key_types.KeyType) else _dtype(name)
    if known != dtype:
        raise Refused(f"an array is of type {aval.str_short()}")
    return tuple(aval.shape), name, aval.weak_type


def _dtype(name: str) -> Any:
    try:
        return np.dtype(name)
    except TypeError:
        return None


def _read_aval(written: tuple[Any, ...]) -> ShapedArray:
    shape, name, weak_type = written
    return ShapedArray(shape, key_types.key_type_of_text(name) or np.dtype(name), weak_type=weak_type)


def _numbers(value: Any) -> np.ndarray:
    """An array in NumPy; of random keys, their words."""
    return np.asarray(value.host if type(value) is Array else value)


def _written_constant(value: Any) -> tuple[Any, bytes]:
    if type(value) is not Array or value._device is not None:
        raise Refused("it closes over an array that is put on devices")
    return _written(value.aval), np.ascontiguousarray(_numbers(value)).tobytes()


def _read_constant(written: tuple[Any, bytes]) -> Array:
    aval = _read_aval(written[0])
    words = aval.physical  # of numbers, the type itself
    return Array(aval, np.frombuffer(written[1], words.dtype).reshape(words.shape))


def _of_buffer(buffer: Any) -> Array:
    return Array(ShapedArray(buffer.aval.shape, np.dtype(buffer.aval.dtype)), None, buffer)


def _stored(program: Any) -> tuple[Any, ...]:
    if type(program) is not Executable:
        raise Refused("it calls Python functions, or runs on several devices")
    if program.stored is None:
        raise Refused("its compiled program could not be kept on disk")
    return tuple(program.stored)
