"""parse : text -> closed jaxpr. Reads what text/printer.py writes, by the grammar in grammar.lark."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from xpr.core.avals import ShapedArray, aval_of, describe, same_type
from xpr.core.interpreter import shardings_decided_later
from xpr.core.jaxpr import ClosedJaxpr, DropVar, FillerVar, Jaxpr, JaxprEqn, Literal, Var, unitvar
from xpr.core.memory import MemorySpace
from xpr.core.meshes import AbstractMesh
from xpr.core.primitive import Primitive, registered
from xpr.core.refs import AbstractRef
from xpr.dimensions.scope import SymbolicScope, begin_reading, symbolic_shape
from xpr.errors import AxisNameError, HoleError, UnsupportedRule
from xpr.jaxpr.functions import Filling
from xpr.jaxpr.messages import Fault, did_you_mean, expected, syntax_error, word_at
from xpr.key_types import key_type_of_text, of_tag
from xpr.text.explicit import HOST, mesh_of_text, partitioned, split_dimensions, split_sums
from xpr.text.literals import DTYPES, expected_dtype, kind_of_text, literal, number
from xpr.text.parameters import DTYPE_NAMES, STRUCTURES, ConstantHole, Hole, build_structure, member

_CONSTANTS = {"None": None, "True": True, "False": False, "nan": float("nan"), "inf": float("inf")}
_BINDERS = re.compile(r"(?:[A-Za-z_]\w*:(?:Ref\{)?[a-z]\w*\[[\w ^*+(),-]*\]\}?\s+|\*\s+)*")
_BINDER = re.compile(r"[^\s\[]+(?:\[[^\]]*\](?:\{[UR]:[^{}=]*\})?\}?)?|\*")  # the dimensions of a type may have spaces
_ILL_TYPED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError)  # of typing rules
_NUMBER_WORDS = frozenset({"True", "False", "nan", "inf"})


def parse(text: str, constants: Sequence[Any] | None = None, functions: Mapping[str, Any] | None = None) -> ClosedJaxpr:
    """Reads a jaxpr from its text.

    Every well typed jaxpr that prints can be read, and is then equal to the one that was printed (`xpr.jaxpr.equal`).
    Comments run from `#` to the end of the line. Each equation must have the types that its primitive computes.

    Args:
      text: as `str(jaxpr)` or `jaxpr.pformat()` gives it.
      constants: the values of the constants, in the order of the text. Without them the program can be printed,
        compared and transformed, but not run.
      functions: Python objects that the text shows as `<function name>`, by name; where different ones have one name, a
        list of one for each occurrence in the text. `xpr.jaxpr.functions` gives those of a program. Without them they
        are holes, which raise `HoleError` when they are used.

    Returns:
      A `ClosedJaxpr`.

    Raises:
      JaxprSyntaxError: the text is not a jaxpr, or an equation is ill-typed; the message points to the position and
        says what was expected.
      TypeError: a constant has another type than the text says, or their number differs, or that of functions of one
        name; `text` is no string.

    >>> import xpr
    >>> closed = xpr.jaxpr.parse("{ lambda ; a:f32[]. let b:f32[] = mul a 2.0 in (b,) }")
    >>> xpr.core.jaxpr_as_fun(closed)(3.0)
    [Array(6., dtype=float32)]
    """
    if not isinstance(text, str):
        raise TypeError(f"parse reads the text of a jaxpr, and got {describe(text)}.")
    if constants is not None and not isinstance(constants, Iterable):
        raise TypeError(f"parse: constants is a list of values, and is {describe(constants)}.")
    filling = Filling("parse", functions)
    with _lock:
        reader = _reader()
        reader.begin(filling)
        try:
            jaxpr = cast(Jaxpr, _parser().parse(text, start="program"))
        except (Fault, UnexpectedInput) as error:
            fault = error if isinstance(error, Fault) else _fault(error, text)
            raise syntax_error(text, fault.position, fault.message) from None
        finally:
            nested = reader.end()
    filling.finish()
    return _with_constants(jaxpr, nested, constants)


def _with_constants(jaxpr: Jaxpr, nested: list[ClosedJaxpr], constants: Sequence[Any] | None) -> ClosedJaxpr:
    if constants is None:
        return ClosedJaxpr(jaxpr, [ConstantHole(v.aval) for v in jaxpr.constvars])
    whole = ClosedJaxpr(jaxpr, [None] * len(jaxpr.constvars))
    variables = [(closed, i, v.aval) for closed in [whole, *nested] for i, v in enumerate(closed.jaxpr.constvars)]
    types, avals = [aval_of(value) for value in constants], [aval for _, _, aval in variables]
    if len(types) != len(avals) or not all(map(_fits, constants, types, avals)):
        expected_types, passed = (", ".join(aval.str_short() for aval in each) for each in (avals, types))
        raise TypeError(
            "The constants differ from those of the text.\n"
            f"  the text takes   {expected_types or 'none'}\n  it was given     {passed or 'none'}"
        )
    for (closed, i, _), value in zip(variables, constants):
        closed.consts[i] = value
    return whole


def _fits(value: Any, aval: ShapedArray, expected_aval: ShapedArray) -> bool:
    """Whether a value has the expected type, perhaps after narrowing to 32 bits."""
    return aval.shape == expected_aval.shape and expected_aval.dtype in (aval.dtype, getattr(value, "dtype", None))


# -- The parser, built once; its reader has a state, so one text is read at a time.

_lock = threading.Lock()


@cache
def _reader() -> _Reader:
    return _Reader()


@cache
def _parser() -> Lark:
    grammar = (Path(__file__).parent / "grammar.lark").read_text()
    return Lark(grammar, start=["program", "params"], parser="lalr", transformer=_reader(), maybe_placeholders=False)


def _fault(error: UnexpectedInput, text: str) -> Fault:
    position = error.pos_in_stream if error.pos_in_stream is not None else len(text)
    terminals: set[str] = set()
    if isinstance(error, UnexpectedToken):
        terminals = error.accepts or error.expected
        if error.token.type == "$END":
            position = len(text.rstrip())
    elif isinstance(error, UnexpectedCharacters):
        terminals = set(error.allowed or ())
    if "APPLY" in terminals:  # the binders before the one at fault are good
        good = _BINDERS.match(text, position)
        position = good.end() if good else position
    return Fault(position, f"expected {expected(terminals)}, and found {word_at(text, position)}.")


@lru_cache(8192)
def _plain_params(text: str) -> dict[str, Any]:
    """The parameters of a plain list, which are the same wherever it occurs."""
    try:
        return cast(dict[str, Any], _parser().parse(text, start="params"))
    except UnexpectedInput as error:
        raise _fault(error, text) from None


@lru_cache(8192)
def _type(text: str) -> Any:
    if text.startswith("Ref{"):
        inner = _type(text[4:-1])
        return None if inner is None else AbstractRef(inner)
    dtype, _, shape = text[:-1].partition("[")
    sizes = [n for n in shape.split(",") if n]
    known = DTYPES.get(dtype) or key_type_of_text(dtype)
    return None if known is None else ShapedArray(tuple(map(int, sizes)), known)


_SYMBOLIC = re.compile(r"\[.*[A-Za-z]")


def _type_in(text: str, scope: SymbolicScope, mesh: AbstractMesh | None) -> Any:
    """The type of a text, whose symbolic dimensions are of a scope, and which is partitioned over axes of the mesh.

    Raises:
      ValueError: there is something wrong with them.
    """
    if HOST in text:
        aval = _type_in(text.replace(HOST, ""), scope, mesh)
        return None if aval is None else aval.in_memory(MemorySpace.Host)
    text, sums = split_sums(text)
    if "@" in text or any(sums):
        plain, parts = split_dimensions(text.partition("[")[2].rstrip("]}"))
        if mesh is None:
            raise ValueError(f"{text} names axes of a mesh, and no {{ lambda[x=4 ...] around it says which.")
        aval = _type_in(f"{text.partition('[')[0]}[{plain}]{'}' * text.startswith('Ref{')}", scope, None)
        if type(aval) is AbstractRef:
            return AbstractRef(partitioned(aval.inner_aval, parts, mesh, sums), None, aval.kind)
        return None if aval is None else partitioned(aval, parts, mesh, sums)
    if not _SYMBOLIC.search(text):
        return _type(text)
    if text.startswith("Ref{"):
        inner = _type_in(text[4:-1], scope, mesh)
        return None if inner is None else AbstractRef(inner)
    dtype, _, shape = text[:-1].partition("[")
    known = DTYPES.get(dtype) or key_type_of_text(dtype)
    if known is None:
        return None
    dimensions = symbolic_shape(shape, scope=scope)
    if negative := [size for size in dimensions if isinstance(size, int) and size < 0]:
        raise ValueError(f"The symbolic shape {shape!r} has a negative dimension, {negative[0]}.")
    return ShapedArray(dimensions, known)


# -- The reader: each method builds the value of a grammar rule from those of its parts.


class _Reader(Transformer):
    """Reads from the bottom up: a jaxpr's head opens a scope, its equations are read in it, its end closes it."""

    def begin(self, filling: Filling) -> None:
        self.filling = filling
        self.scope: dict[str, Var] = {}
        self.dimensions = begin_reading()  # the scope of all symbolic dimensions
        self.mesh: AbstractMesh | None = None  # which the types of the jaxpr that is read name
        self.outer: list[tuple[dict[str, Var], AbstractMesh | None]] = []
        self.nested: dict[int, ClosedJaxpr] = {}  # by position

    def end(self) -> list[ClosedJaxpr]:
        """The jaxprs with constants inside the one that was read, in their order; what was read is forgotten."""
        nested = self.nested
        self.begin(Filling("parse", None))
        return [nested[position] for position in sorted(nested)]

    # -- Jaxprs

    def program(self, parts: list[Any]) -> Jaxpr:
        return parts[0].jaxpr if isinstance(parts[0], ClosedJaxpr) else parts[0]

    def jaxpr(self, parts: list[Any]) -> Jaxpr | ClosedJaxpr:
        (constvars, invars, position), *eqns, outvars = parts
        self.scope, self.mesh = self.outer.pop()
        jaxpr = Jaxpr(constvars, invars, outvars, eqns)
        if not constvars:
            return jaxpr
        closed = ClosedJaxpr(jaxpr, [ConstantHole(v.aval) for v in constvars])
        if self.outer:
            self.nested[position] = closed
        return closed

    def head(self, parts: list[Any]) -> tuple[list[Var], list[Var], int]:
        *mesh, constants, arguments, let = parts
        self.outer.append((self.scope, self.mesh))
        self.scope = {}
        if mesh:
            try:
                self.mesh = mesh_of_text(mesh[0].strip()[1:-1])
            except ValueError as error:
                raise Fault(_start(mesh[0]), str(error)) from None
        return self.run(constants), self.run(arguments), _start(let)

    def run(self, binders: Token | None) -> list[Var]:
        return self.binders(binders, _start(binders)) if binders else []

    def constants(self, parts: list[Any]) -> Any:
        return parts[0] if parts else None

    arguments = constants

    def equation(self, parts: list[Any]) -> JaxprEqn:
        operands: Any = None
        params: dict[str, Any] = {}
        apply = parts[0]
        for part in parts[1:]:
            if type(part) is dict:
                params = part
            elif part.type == "OPERANDS":
                operands = part
            else:
                params = self.plain(part)
        binders, _, name = apply.partition("=")
        primitive = registered.get(name.strip()) or self.unknown_primitive(apply)
        scope = self.scope
        invars: list[Any] = [scope.get(word) for word in operands.split()] if operands else []
        outvars = self.binders(binders, _start(apply)) if binders else []
        if None in invars:
            self.literals(operands, invars, [v for v in invars if v is not None], outvars)
        self.check_types(primitive, invars, params, outvars, apply)
        return JaxprEqn(invars, outvars, primitive, params)

    def check_types(
        self, primitive: Primitive, invars: Sequence[Any], params: dict[str, Any], outvars: Sequence[Var], apply: Token
    ) -> None:
        """Refuses an equation with other parameters, or results of other types, than its primitive has."""
        try:
            primitive.check_params(params)
        except TypeError as error:
            raise Fault(_start_of_name(apply), str(error)) from None
        try:
            with shardings_decided_later():
                result_avals = primitive.type_of(tuple([v.aval for v in invars]), params)
        except (AxisNameError, HoleError, UnsupportedRule):
            return  # its types are known only where it is run
        except _ILL_TYPED as error:
            types = ", ".join(v.aval.str_short() for v in invars) or "nothing"
            what = f"`{primitive}` can't be applied to {types}: {str(error).rstrip('.')}."
            raise Fault(_start_of_name(apply), what) from None
        if len(result_avals) != len(outvars):
            counts = f"`{primitive}` gives {len(result_avals)} results, and {len(outvars)} are bound."
            raise Fault(_start(apply), counts)
        for aval, var, word in zip(result_avals, outvars, _BINDER.findall(apply)):
            if not same_type(aval, var.aval):
                what = f"`{word}` is bound as {var.aval.str_short()}, and `{primitive}` gives {aval.str_short()}."
                raise Fault(_start(apply) + _position_of(apply, word), what)

    def result(self, parts: list[Any]) -> list[Any]:
        if not parts:
            return []
        outvars = [self.scope.get(word) for word in parts[0].replace(",", " ").split()]
        if None in outvars:
            self.literals(parts[0], outvars, [], [])
        return outvars

    # -- Variables and literals

    def binders(self, text: str, position: int) -> list[Var]:
        """The variables that a sequence of binders binds."""
        variables: list[Var] = []
        scope = self.scope
        for word in text.split() if " " not in text or "[" not in text else _BINDER.findall(text):
            name, _, type_text = word.partition(":")
            try:
                aval = _type_in(type_text, self.dimensions, self.mesh) if type_text else unitvar.aval
            except ValueError as error:
                raise Fault(position + text.index(word), str(error)) from None
            if aval is None:
                dtype = type_text.removeprefix("Ref{").partition("[")[0]
                raise Fault(position + _position_of(text, word), self.no_dtype(dtype))
            if name == "_":
                variables.append(DropVar(aval))
                continue
            if name == "*":
                variables.append(unitvar)
                continue
            if name in scope:
                raise Fault(position + _position_of(text, word), f"`{name}` is bound a second time.")
            var = scope[name] = FillerVar(aval) if name[-1] == "_" else Var(aval)
            variables.append(var)
        return variables

    def literals(self, token: Token, atoms: list[Any], operands: Sequence[Any], results: Sequence[Var]) -> None:
        """Fills in the literals among the atoms."""
        words = token.replace(",", " ").split()
        for i, word in enumerate(words):
            if atoms[i] is None:
                if word == "*":
                    atoms[i] = unitvar
                    continue
                text, _, short = word.partition(":")
                if text[0].isalpha() and text not in _NUMBER_WORDS:
                    names = did_you_mean(text, self.scope)
                    raise Fault(
                        _start(token) + _position_of(token, word), f"`{text}` is not bound in this jaxpr{names}"
                    )
                dtype = DTYPES.get(short) if short else expected_dtype(kind_of_text(text), operands, results)
                if dtype is None:
                    raise Fault(_start(token) + _position_of(token, word), self.no_dtype(short))
                atoms[i] = self.literal(token, word, text, dtype)

    def literal(self, token: Token, word: str, text: str, dtype: np.dtype) -> Literal:
        try:
            return literal(text, dtype)
        except (OverflowError, ValueError) as error:
            raise Fault(_start(token) + _position_of(token, word), f"{error}.") from None

    # -- Parameters

    def plain(self, token: Token) -> dict[str, Any]:
        try:
            return _plain_params(str(token)).copy()
        except Fault as fault:
            raise Fault(_start(token) + fault.position, fault.message) from None

    def params(self, parts: list[Any]) -> dict[str, Any]:
        params: dict[str, Any] = {}
        for key, value in zip(parts[::2], parts[1::2]):
            if key[:-1] in params:
                raise Fault(_start(key), f"the parameter `{key[:-1]}` is given a second time.")
            params[key[:-1]] = value
        return params

    def as_tuple(self, parts: list[Any]) -> Any:
        return tuple(parts)

    def as_list(self, parts: list[Any]) -> Any:
        return parts

    def field(self, parts: list[Any]) -> Any:
        return parts[0][:-1], parts[1]

    def structure(self, parts: list[Any]) -> Any:
        token, *fields = parts
        name = token[:-1]
        cls = self.known_class(token, name)
        try:
            return build_structure(cls, dict(fields))
        except (TypeError, ValueError, LookupError) as error:
            raise Fault(_start(token), f"{error}.") from None

    def known_class(self, token: Token, name: str) -> Any:
        if name not in STRUCTURES:
            close = did_you_mean(name, STRUCTURES)
            reason = f"`{name}` is no enumeration or structure that is known here{close}"
            raise Fault(_start(token), f"{reason} A class is made known by xpr.extend.register_parameter.")
        return STRUCTURES[name]

    def WORD(self, token: Token) -> Any:
        text = str(token)
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text in DTYPE_NAMES:
            return DTYPE_NAMES[text]
        if known := of_tag(text) or key_type_of_text(text):
            return known
        name, dot, of_it = text.partition(".")
        if not dot:
            return text
        cls = self.known_class(token, name)
        try:
            return member(name, of_it)
        except KeyError:
            raise Fault(
                _start(token), f"`{name}` has no member `{of_it}`{did_you_mean(of_it, _members(cls))}"
            ) from None

    def NUMBER(self, token: Token) -> Any:
        text, _, short = token.partition(":")
        if not short:
            try:
                return number(text)
            except ValueError as error:  # too many digits
                raise Fault(_start(token), f"{error}.") from None
        if short not in DTYPES:
            raise Fault(_start(token), self.no_dtype(short))
        return self.literal(token, token, text, DTYPES[short]).val

    COMPLEX = NUMBER

    def STRING(self, token: Token) -> str:
        return _unquoted(token, _start(token))

    def TYPE(self, token: Token) -> ShapedArray:
        try:
            aval = _type_in(str(token), self.dimensions, self.mesh)
        except ValueError as error:
            raise Fault(_start(token), str(error)) from None
        if aval is None:
            raise Fault(_start(token), self.no_dtype(token.partition("[")[0]))
        return aval

    def HOLE(self, token: Token) -> Any:
        kind, _, name = token[1:-1].partition(" ")
        name = _unquoted(name, _start(token)) if name[0] in "'\"" else name
        if kind == "primitive":
            return self.known_primitive(name, _start(token))
        return self.filling.next(Hole(kind, name))

    # -- What is not known

    def unknown_primitive(self, token: Token) -> Primitive:
        written = token.partition("=")[2].strip()
        position = _start(token) + len(token.rstrip()) - len(written)
        return self.known_primitive(_unquoted(written, position) if written[0] in "'\"" else written, position)

    def known_primitive(self, name: str, position: int) -> Primitive:
        if name not in registered:
            raise Fault(position, f"there is no primitive `{name}`{did_you_mean(name, registered)}")
        return registered[name]

    def no_dtype(self, name: str) -> str:
        return f"there is no dtype `{name}`{did_you_mean(name, DTYPES)}"


def _members(cls: Any) -> list[str]:
    return list(cls if isinstance(cls, dict) else getattr(cls, "__members__", ()))


def _unquoted(text: str, position: int) -> str:
    try:
        return cast(str, ast.literal_eval(text))
    except (SyntaxError, ValueError) as error:
        raise Fault(position, f"this is no string: {error.args[0]}.") from None


def _start(token: Token) -> int:
    return token.start_pos or 0


def _start_of_name(apply: Token) -> int:
    return _start(apply) + len(apply) - len(apply.partition("=")[2].lstrip())


def _position_of(text: str, word: str) -> int:
    """The position of a word in a text."""
    start = 0
    for each in text.replace(",", " ").split():
        start = text.index(each, start)
        if each == word:
            break
        start += len(each)
    return start
