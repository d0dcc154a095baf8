"""`python -m xpr.jaxpr FILE`: prints, checks, shows or converts a saved jaxpr."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from xpr.core.check import check_jaxpr
from xpr.core.jaxpr import ClosedJaxpr
from xpr.errors import XprError
from xpr.inspect.dot import to_dot
from xpr.inspect.show import show
from xpr.inspect.svg import to_svg
from xpr.jaxpr.loading import loads
from xpr.jaxpr.parser import parse
from xpr.jaxpr.saving import dumps
from xpr.text.printer import pformat

FORMATS: dict[str, Callable[[ClosedJaxpr], str]] = {
    "text": pformat,
    "json": dumps,
    "html": lambda closed: show(closed).html,
    "dot": to_dot,
    "svg": to_svg,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        closed = read(options.file)
        if options.compare:
            print(f"Wrote {show(closed, read(options.compare), labels=[options.file, options.compare]).open()}")
        elif options.show:
            print(f"Wrote {show(closed, labels=[Path(options.file).stem]).open()}")
        elif options.check:
            check(options.file, closed)
            print(f"{options.file}: {len(closed.eqns)} equations, well typed.")
        else:
            write(closed, options.output, options.format or format_of(options.output))
    except (OSError, UnicodeError, RecursionError, XprError) as error:
        print(f"xpr.jaxpr: {_in_one_line(error)}", file=sys.stderr)
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"xpr.jaxpr: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("python -m xpr.jaxpr", description="Prints, checks, shows or converts a saved jaxpr.")
    parser.add_argument("file", metavar="FILE", help="the text of a jaxpr, or what xpr.jaxpr.dumps wrote; - is stdin")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="check that it is well formed and well typed")
    what.add_argument("--show", action="store_true", help="show it in the browser")
    what.add_argument("--compare", metavar="OTHER", help="show in the browser what differs in another one")
    for name in FORMATS:
        help_text = f"write it as {name}"
        what.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=help_text)
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="where to; its ending is the format if no other option says it"
    )
    return parser


def read(name: str) -> ClosedJaxpr:
    """The program in a file: JSON, or text."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
        is_json = re.match(r'\s*\{\s*"', text)
        return loads(text) if is_json else parse(text)
    except (UnicodeDecodeError, XprError) as error:
        raise XprError(f"{name}: {_in_one_line(error)}") from error


def check(name: str, closed: ClosedJaxpr) -> None:
    try:
        check_jaxpr(closed)
    except XprError as error:
        raise XprError(f"{name}: {_in_one_line(error)}") from error


def format_of(output: str | None) -> str:
    """The format of a file name's ending; by default the text of a jaxpr."""
    ending = Path(output or "").suffix[1:].lower()
    return ending if ending in FORMATS else "text"


def write(closed: ClosedJaxpr, output: str | None, form: str) -> None:
    text = FORMATS[form](closed)
    if output is None:
        print(text)
    else:
        Path(output).write_text(text + "\n", "utf-8")


def _in_one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the output'}: {error.strerror}".replace("\n", " ")
    if isinstance(error, UnicodeDecodeError):
        return f"this is no text in UTF-8: byte {error.start} is {error.object[error.start]:#04x}."
    if isinstance(error, RecursionError):
        return "the program is nested too deeply."
    return str(error).split("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
