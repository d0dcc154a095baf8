"""Errors that point into the text of a jaxpr: the line and column, the line itself with a caret, what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from xpr.errors import JaxprSyntaxError

# The terminals of grammar.lark in words, in the order in which messages list them.
_WORDS = {
    "_LAMBDA": "`{ lambda`",
    "BINDERS": "a variable with its type (`a:f32[2,3]`)",
    "OPERANDS": "an operand",
    "RESULTS": "a result",
    "PLAIN_PARAMS": "parameters in brackets",
    "LSQB": "parameters in brackets",
    "APPLY": "an equation (`b:f32[] = sin a`)",
    "KEY": "`name=` of a parameter",
    "WORD": "a value",
    "LET": "`. let`",
    "_IN": "`in (...)`",
    "_END": "`) }`",
    "_SEMICOLON": "`;`",
    "COMMA": "`,`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "$END": "the end of the text",
}
_VALUES = frozenset({"NUMBER", "COMPLEX", "STRING", "TYPE", "HOLE", "STRUCTURE", "WORD"})
_LONGEST = 100


class Fault(Exception):
    """A syntax error at a position of the text."""

    def __init__(self, position: int, message: str):
        self.position, self.message = position, message


def expected(terminals: Iterable[str]) -> str:
    """`a, b or c`: the terminals that are allowed at a position, in words."""
    terminals = set(terminals)
    if _VALUES <= terminals:
        return _WORDS["WORD"]
    words = list(dict.fromkeys(word for terminal, word in _WORDS.items() if terminal in terminals))
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "something else"


def word_at(text: str, position: int) -> str:
    """The word at a position."""
    words = text[position:].split(None, 1)
    return f"`{words[0][:40]}`" if words else "the end of the text"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean `sin`?` where a similar word is known."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean `{close[0]}`?" if close else "."


def syntax_error(text: str, position: int, message: str) -> JaxprSyntaxError:
    """The error with the line at a position."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    number, column = text.count("\n", 0, position) + 1, position - start + 1
    left = max(0, column - _LONGEST // 2) if len(line) > _LONGEST else 0
    shown = line[left : left + _LONGEST].rstrip()
    hint = _hint(text)
    error = JaxprSyntaxError(
        f"line {number}, column {column}: {message}\n    {shown}\n    {' ' * (column - 1 - left)}^{hint}"
    )
    error.line, error.column = number, column
    return error


def _hint(text: str) -> str:
    head, let, _ = text.partition("let")
    untyped = let and ":" not in head and head.replace("lambda", "").strip(" {};.\n")
    return (
        "\n  The text has no types, as pformat(types=False) writes it; only text with types can be read."
        if untyped
        else ""
    )
