"""debug.breakpoint: a debugger's prompt while a program runs, with the values of the frames in which it was traced.

When a compiled program runs, the Python frames that traced it have returned. So they are recorded while tracing, and
the traced values among their variables become operands of a callback, which substitutes the values.
"""

from __future__ import annotations

import bdb
import cmd
import linecache
import pprint
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TextIO

from xpr import tree
from xpr.control.callback.callback import debug_callback_p
from xpr.control.callback.host_call import flatten_call
from xpr.core.interpreter import Tracer
from xpr.core.source import is_internal


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
) -> None:
    """Stops a running program and asks for commands, with the variables of the calling frames.

    The commands: an expression, `p` or `pp` with one, `l` (the lines around), `bt` (the frames), `u` and `d` (to the
    caller and back), `c` (go on), `q` (end the program: `bdb.BdbQuit` is raised where it was called).

    Args:
      backend: "cli" or None.
      filter_frames: whether to leave out the library's own frames.
      num_frames: the number of frames to keep; None for all.
      ordered: whether it is run in order with the other ordered callbacks.
      token: has no effect.
      stdin: where commands are read from; None for the terminal.
      stdout: where answers are written to; None for the terminal.

    Returns:
      None.

    Raises:
      ValueError: there is no such debugger.
      BdbQuit: the program is ended by the command `q`.

    >>> import io, xpr
    >>> commands, answers = io.StringIO("p x + y\\nc\\n"), io.StringIO()
    >>> @xpr.jit
    ... def f(x):
    ...     y = x * 2
    ...     xpr.debug.breakpoint(num_frames=1, stdin=commands, stdout=answers)
    ...     return y
    >>> _ = f(1.0)
    >>> answers.getvalue().splitlines()[2]
    '(xpr) Array(3., dtype=float32)'
    """
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint: there is one debugger, 'cli', and {backend!r} was asked for.")
    frames = _frames_from(sys._getframe(1), filter_frames, num_frames)
    variables = [_variables(frame) for frame in frames]
    stop = _Stop([FrameInfo(frame) for frame in frames], stdin, stdout)
    call, operands = flatten_call("debug.breakpoint", stop, variables, {}, None, _is_traced)
    debug_callback_p.bind(*operands, callback=call, ordered=bool(ordered), partitioned=False)


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tracer)


def _frames_from(frame: FrameType | None, filter_frames: bool, num_frames: int | None) -> list[FrameType]:
    frames: list[FrameType] = []
    while frame is not None and (num_frames is None or len(frames) < num_frames):
        if not (filter_frames and is_internal(frame.f_code.co_filename)):
            frames.append(frame)
        frame = frame.f_back
    return frames


def _variables(frame: FrameType) -> dict[str, Any]:
    """The local variables; a traced value whose function has returned is left out, since it will never have a value."""
    variables = {}
    for name, value in frame.f_locals.items():
        if frame.f_locals is frame.f_globals:
            break  # a module's variables are looked up when they are used
        try:
            leaves = tree.leaves(value)
        except (TypeError, ValueError):  # a container that is no pytree, such as a dict of unsortable keys
            continue
        if not any(isinstance(x, Tracer) and not x._trace.alive for x in leaves):
            variables[name] = value if any(isinstance(x, Tracer) for x in leaves) else _Opaque(value)
    return variables


class _Opaque:
    """A value that is passed on as it is, whatever its type."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


class FrameInfo:
    """The position of a frame: its file, line and function."""

    __slots__ = ("filename", "globals", "line", "name")

    def __init__(self, frame: FrameType):
        self.filename, self.name, self.line = frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno
        self.globals = frame.f_globals

    def __str__(self) -> str:
        text = linecache.getline(self.filename, self.line).strip()
        return f"> {self.filename}({self.line}){self.name}()" + (f"\n-> {text}" if text else "")

    def source_lines(self, lines: int = 5) -> str:
        numbers = range(max(1, self.line - lines), self.line + lines + 1)
        texts = [(n, linecache.getline(self.filename, n).rstrip()) for n in numbers]
        return "\n".join(f"{n:4d} {'->' if n == self.line else '  '} {text}".rstrip() for n, text in texts if text)


class _Stop:
    """The callback: opens the debugger on frames with the values of their variables."""

    __slots__ = ("__name__", "frame_infos", "stdin", "stdout")

    def __init__(self, frame_infos: list[FrameInfo], stdin: TextIO | None, stdout: TextIO | None):
        self.frame_infos, self.stdin, self.stdout = frame_infos, stdin, stdout
        self.__name__ = "breakpoint"

    def __call__(self, *variables: dict[str, Any]) -> None:
        plain = [{n: x.value if type(x) is _Opaque else x for n, x in frame.items()} for frame in variables]
        Debugger(list(zip(self.frame_infos, plain)), self.stdin, self.stdout).cmdloop()


class Debugger(cmd.Cmd):
    """The debugger's prompt."""

    prompt = "(xpr) "

    def __init__(self, frames: Sequence[tuple[FrameInfo, dict[str, Any]]], stdin: TextIO | None, stdout: TextIO | None):
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames, self.at = frames, 0

    def say(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def preloop(self) -> None:
        self.say(str(self.frames[self.at][0]))

    def emptyline(self) -> bool:
        return False

    def evaluate(self, expression: str, show: Callable[[Any], str]) -> None:
        info, variables = self.frames[self.at]
        try:
            self.say(show(eval(expression, {**info.globals, **variables})))
        except Exception as error:
            self.say(f"*** {type(error).__name__}: {error}")

    def default(self, line: str) -> bool:  # type: ignore[override]  # as `onecmd` gives on what it says
        """An expression."""
        if line == "EOF":
            return self.do_continue("")
        self.evaluate(line, repr)
        return False

    def do_p(self, expression: str) -> None:
        """p expression: its value."""
        self.evaluate(expression, repr)

    def do_pp(self, expression: str) -> None:
        """pp expression: its value, on several lines where it is long."""
        self.evaluate(expression, pprint.pformat)

    def do_list(self, _: str) -> None:
        """l(ist): the lines around."""
        self.say(self.frames[self.at][0].source_lines())

    def do_where(self, _: str) -> None:
        """bt, w(here): the frames, the innermost last."""
        for i, (info, _variables) in reversed(list(enumerate(self.frames))):
            self.say(str(info) if i == self.at else f"  {str(info)[2:]}")

    def do_up(self, _: str) -> None:
        """u(p): to the caller."""
        self.move(1, "oldest")

    def do_down(self, _: str) -> None:
        """d(own): back from the caller."""
        self.move(-1, "newest")

    def move(self, step: int, last: str) -> None:
        if not 0 <= self.at + step < len(self.frames):
            self.say(f"*** This is the {last} frame.")
            return
        self.at += step
        self.say(str(self.frames[self.at][0]))

    def do_continue(self, _: str) -> bool:
        """c(ontinue): go on."""
        return True

    def do_quit(self, _: str) -> bool:
        """q(uit): end the program."""
        raise bdb.BdbQuit("The program was ended at a breakpoint.")

    do_l, do_bt, do_w, do_u, do_d = do_list, do_where, do_where, do_up, do_down
    do_c, do_cont, do_q, do_exit = do_continue, do_continue, do_quit, do_quit
