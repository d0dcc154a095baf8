"""Layout of text in the manner of Wadler's "A prettier printer": a group goes on one line where it fits in the width.

A document is a str, a list of documents, or one of the classes here. Layout is linear in the size of the document.
"""

from __future__ import annotations

from typing import Any

COMMENT_COLUMN = 64  # comments begin no further to the right than this, unless their line is longer
ENDLESS = 1 << 40  # the width of a document that can't be on one line


class Break:
    """A space, or a new line where its group is broken; `text` is what replaces it on one line."""

    __slots__ = ("text",)

    def __init__(self, text: str = " "):
        self.text = text


class Nest:
    """A document whose new lines start further to the right."""

    __slots__ = ("indent", "doc")

    def __init__(self, indent: int, doc: Any):
        self.indent, self.doc = indent, doc


class Group:
    """Laid out on one line if that fits. Its width on one line is worked out once, bottom up."""

    __slots__ = ("doc", "width")

    def __init__(self, doc: Any):
        self.doc = doc
        self.width = flat_width(doc)


class Comment:
    """A comment after the line it is in; all comments of the document begin in one column."""

    __slots__ = ("text",)

    def __init__(self, text: str):
        self.text = text


class Mark:
    """Nothing to be seen: `layout` tells its place."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


class Styled:
    """Text between two escape sequences, which have no width."""

    __slots__ = ("text", "style")

    def __init__(self, text: str, style: str):
        self.text, self.style = text, style


def flat_width(doc: Any) -> int:
    """The width of a document on one line; endless where it has a comment, which ends its line."""
    if isinstance(doc, str):
        return len(doc)
    if isinstance(doc, (Break, Styled)):
        return len(doc.text)
    if isinstance(doc, list):
        return sum(map(flat_width, doc))
    if isinstance(doc, Mark):
        return 0
    if isinstance(doc, Comment):
        return ENDLESS
    return doc.width if isinstance(doc, Group) else flat_width(doc.doc)


def layout(doc: Any, width: int, marks: list[tuple[int, int, Any]] | None = None) -> str:
    """The text of a document. For each `Mark` its line, column and value are added to `marks`, if that is given."""
    out: list[str] = []
    line = column = 0
    comments: list[tuple[int, int, str]] = []  # position in `out` of the end of its line, that line's width, text
    pending = ""
    stack: list[tuple[int, bool, Any]] = [(0, False, doc)]  # indent, broken, document
    while stack:
        indent, broken, doc = stack.pop()
        if isinstance(doc, str):
            out.append(doc)
            column += len(doc)
        elif isinstance(doc, list):
            stack.extend((indent, broken, part) for part in reversed(doc))
        elif isinstance(doc, Nest):
            stack.append((indent + doc.indent, broken, doc.doc))
        elif isinstance(doc, Group):
            stack.append((indent, column + doc.width > width, doc.doc))
        elif isinstance(doc, Comment):
            pending = doc.text
        elif isinstance(doc, Styled):
            out.append(f"\x1b[{doc.style}m{doc.text}\x1b[0m")
            column += len(doc.text)
        elif isinstance(doc, Mark):
            if marks is not None:
                marks.append((line, column, doc.value))
        elif broken:
            if pending:
                comments.append((len(out), column, pending))
                pending = ""
            out.append("\n" + " " * indent)
            line, column = line + 1, indent
        else:
            out.append(doc.text)
            column += len(doc.text)
    _write_comments(out, comments)
    return "".join(out)


def _write_comments(out: list[str], comments: list[tuple[int, int, str]]) -> None:
    start = min(max((column for _, column, _ in comments), default=0), COMMENT_COLUMN)
    for position, column, text in comments:
        out[position] = f"{' ' * max(0, start - column)}  # {text}{out[position]}"


def separated(separator: Any, docs: list[Any]) -> list[Any]:
    """The documents with the separator between each two."""
    joined: list[Any] = []
    for index, doc in enumerate(docs):
        if index:
            joined.append(separator)
        joined.append(doc)
    return joined
