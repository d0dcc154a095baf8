"""Keeps docs/errors.md true: its tree and the sentence about each exception are those of xpr/errors.py.

    python -m tests.error_page

The page has a heading for each exception, and an example below it; what these print is written anew, too.
"""

import inspect
import itertools
import re
import sys
import textwrap
from pathlib import Path

from xpr import errors

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"
WIDTH = 118


def tree() -> str:
    """The exceptions as errors.py draws them."""
    return textwrap.dedent(re.search(r"(?ms)^    XprError\n.*?(?=\n\n)", errors.__doc__ or "")[0])  # type: ignore[index]


def drawn() -> list[tuple[str, str, str]]:
    """Each line of the tree: the name, that of the exception it hangs from, and what is in parentheses behind it."""
    above, lines = {-1: ""}, []
    for line in tree().splitlines():
        match = re.fullmatch(r"(?P<indent>[│├└─ ]*)(?P<name>\w+)(?: +\((?P<builtins>[\w, ]+)\))?.*", line)
        assert match, line
        depth = len(match["indent"]) // 4
        above[depth] = match["name"]
        lines.append((match["name"], above[depth - 1], match["builtins"] or ""))
    return lines


def defined() -> list[tuple[str, str, str]]:
    """The same of the classes; bases that the exception above has already are left out."""
    lines = []
    for name in errors.__all__:
        bases = [base.__name__ for base in getattr(errors, name).__bases__]
        own = [base for base in bases if base in errors.__all__]
        rest = [base for base in bases if base not in errors.__all__ and base != "Exception"]
        lines.append((name, own[0] if own else "", ", ".join(rest)))
    return lines


def with_sentences(text: str) -> str:
    """The page with its tree, and the first paragraph below each heading, from errors.py."""
    text = re.sub(r"(?ms)^XprError\n.*?(?=^```$)", lambda _: tree() + "\n", text, count=1)
    for name in errors.__all__:
        doc = " ".join(inspect.cleandoc(getattr(errors, name).__doc__).split())
        paragraph = textwrap.fill(doc, WIDTH, break_long_words=False, break_on_hyphens=False)
        text = re.sub(rf"(?m)^### {name}\n\n(?:.+\n)+", lambda _, n=name, p=paragraph: f"### {n}\n\n{p}\n", text)
    return text


def with_outputs(text: str) -> str:
    """The page with what its examples print."""
    from tests.test_docs import Page, blocks_of  # which imports this file

    page, lines = Page("docs/errors.md"), text.splitlines(keepends=True)
    sys.modules["__main__"] = page.module
    blocks = list(blocks_of(text))
    printed = {}
    for block, after in itertools.pairwise(blocks):
        if block.language == "python" and not block.comment:
            has_output = after.language == "text" and after.follows
            out = page.script(block, raises=has_output)
            if has_output:
                printed[after.line] = (after.text.count("\n"), out)
    for line in sorted(printed, reverse=True):
        count, out = printed[line]
        lines[line - 1 : line - 1 + count] = [out]
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(with_outputs(with_sentences(PAGE.read_text())))
