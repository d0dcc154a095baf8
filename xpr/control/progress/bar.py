"""Progress bars as text, in a line of a terminal that is written again, in a cell of a notebook, or in a log."""

from __future__ import annotations

import html
import shutil
import sys
from typing import Any

_BLOCKS = " ▏▎▍▌▋▊▉█"


def duration(seconds: float) -> str:
    """Minutes and seconds, with the hours if there are any.

    >>> duration(75), duration(3675)
    ('01:15', '1:01:15')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def rate(steps: int, seconds: float) -> str:
    """The steps in a second, or the seconds that a step takes.

    >>> rate(500, 2.0), rate(1, 4.0)
    ('250.00 steps/s', '4.00 s/step')
    """
    if not steps or not seconds:
        return "? steps/s"
    return f"{steps / seconds:.2f} steps/s" if steps >= seconds else f"{seconds / steps:.2f} s/step"


def line(title: str, step: int, total: int | None, seconds: float, width: int) -> str:
    """The text of a bar: how many of the steps have been taken, in what time, and what the others will take.

    >>> line("fit", 30, 120, 6.0, 60)
    'fit:  25%|███▎         | 30/120 [00:06<00:18, 5.00 steps/s]'
    >>> line("", 30, None, 6.0, 60)
    '30 steps [00:06, 5.00 steps/s]'
    """
    start = f"{title}: " if title else ""
    if not total:
        return f"{start}{step} steps [{duration(seconds)}, {rate(step, seconds)}]"
    share = min(step / total, 1.0)
    left = duration(seconds / step * max(total - step, 0)) if step else "?"
    start = f"{start}{share:4.0%}|"
    end = f"| {step}/{total} [{duration(seconds)}<{left}, {rate(step, seconds)}]"
    return f"{start}{_blocks(share, max(width - len(start) - len(end) - 1, 1))}{end}"


def _blocks(share: float, width: int) -> str:
    eighths = int(share * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_BLOCKS[part] if full < width else "")).ljust(width)


class Terminal:
    """A line of standard error that is written again and again."""

    seconds = 0.1  # between two updates

    def show(self, title: str, step: int, total: int | None, seconds: float, last: bool, leave: bool) -> None:
        """Writes the bar; the last time with an end of line, or erases it."""
        width = shutil.get_terminal_size().columns
        text = f"{line(title, step, total, seconds, width):.{width - 1}}"
        end = "" if not last else "\n"
        sys.stderr.write(f"\r\x1b[K{text}{end}" if leave or not last else "\r\x1b[K")
        sys.stderr.flush()


class LogLines:
    """Lines of standard error that is no terminal, such as a file."""

    seconds = 10.0

    def show(self, title: str, step: int, total: int | None, seconds: float, last: bool, leave: bool) -> None:
        """Writes a line; none at the start."""
        if step and (leave or not last):
            sys.stderr.write(line(title, step, total, seconds, 80) + "\n")
            sys.stderr.flush()


class Notebook:
    """A bar in the output of a notebook's cell."""

    seconds = 0.2

    def __init__(self, display: Any):
        self.display, self.handle = display, None

    def show(self, title: str, step: int, total: int | None, seconds: float, last: bool, leave: bool) -> None:
        """Shows the bar, or changes the one that is shown."""
        shown = {
            "text/html": self.page(title, step, total, seconds),
            "text/plain": line(title, step, total, seconds, 80),
        }
        if last and not leave:
            shown = {"text/plain": ""}
        if self.handle is None:
            self.handle = self.display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)

    @staticmethod
    def page(title: str, step: int, total: int | None, seconds: float) -> str:
        """The bar as HTML: the browser's own element, and the numbers."""
        bar = f'<progress value="{step}" max="{total}"></progress>' if total else ""
        text = line(title, step, total, seconds, 0)
        numbers = text.rsplit("|", 1)[-1] if total else text
        return f"<div>{html.escape(title) if total else ''} {bar}<code>{html.escape(numbers)}</code></div>"


def here() -> Terminal | LogLines | Notebook:
    """Where a bar is shown in this process."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None and hasattr(shell, "kernel"):
        return Notebook(sys.modules["IPython.display"].display)  # type: ignore[attr-defined]  # imported with a kernel
    return Terminal() if sys.stderr.isatty() else LogLines()
