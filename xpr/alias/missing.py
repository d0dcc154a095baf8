"""Names that JAX has and xpr lacks: the error they raise, and a record of which lines asked for them."""

from __future__ import annotations

import dis
from types import FrameType
from typing import Any

PAGE = "docs/differences.md"  # which lists missing names

requested: dict[str, list[str]] = {}  # the file and line that asked for each name, while `recording`
recording = False
_FROM_IMPORT = dis.opmap["IMPORT_FROM"]


def absent(module: str, name: str, frame: FrameType) -> Any:
    """Raises the error of a name that a module lacks, or, while recording, returns a placeholder.

    Raises:
      ImportError: the frame is at `from module import name`.
      AttributeError: elsewhere.
    """
    if recording:
        record(f"{module}.{name}", frame)
        return Absent(f"{module}.{name}")
    text = f"{module}.{name} is not there: jax is xpr here, which lacks it. {PAGE} lists what it lacks."
    if frame.f_code.co_code[frame.f_lasti] == _FROM_IMPORT:
        raise ImportError(text, name=module)
    raise AttributeError(text, name=name)


def record(name: str, frame: FrameType | None) -> None:
    """Records which line asked for a name: the frame, or the first one around it that is not of the import system."""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    requested.setdefault(name, []).append(f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown")


class Absent:
    """Placeholder for a missing name while a program's missing names are recorded: every operation on it returns
    another placeholder.
    """

    def __init__(self, name: str):
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__name__":
            raise AttributeError(name)
        return self._name if name == "__name__" else Absent(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else Absent(f"{self._name}(...)")

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __getitem__(self, key: Any) -> Any:
        return self

    __or__ = __ror__ = __getitem__

    def __setitem__(self, key: Any, value: Any) -> None:
        """Ignored."""

    def __iter__(self) -> Any:
        return iter(())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def __repr__(self) -> str:
        return f"<{self._name}, which is not there>"


def report() -> str:
    """The missing names, each with the lines that asked for it."""
    if not requested:
        return "Every name that was asked for is there."
    lines = [f"{name}\n    " + "\n    ".join(dict.fromkeys(locations)) for name, locations in sorted(requested.items())]
    return f"{len(requested)} names of jax were asked for that xpr lacks ({PAGE}):\n" + "\n".join(lines)
