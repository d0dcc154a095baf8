"""What a code object reads, and whether reading its instructions tells all that it can do.

The instructions are compared with lists of those that only move values between the stack, locals and new containers.
Global and free variables are recorded with the attributes that follow at once (`jnp.linalg.norm`). Other attributes are
of values that are known only when the code runs; their names alone are recorded. All else is refused.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary


class Read(NamedTuple):
    """A global variable, or a free one, and the attributes that are read of it.

    `is_attribute`: it is `getattr` or `hasattr`, called with a constant name, which is one of `Facts.attributes`.
    """

    name: str
    is_free: bool
    path: tuple[str, ...]
    line: int
    is_attribute: bool = False


class Facts(NamedTuple):
    """What a code object reads.

    Attributes:
      reads: its global and free variables, each once for a path.
      attributes: names of attributes of values that are not known, each with a line.
      stored: free variables that it assigns to, each with a line.
      set_attributes: attributes that it assigns, of its first argument.
      inner: the code objects of functions that it defines.
      refusal: why its instructions don't tell all that it does, and a line; None if they do.
    """

    reads: tuple[Read, ...]
    attributes: dict[str, int]
    stored: dict[str, int]
    set_attributes: dict[str, int]
    inner: tuple[CodeType, ...]
    refusal: tuple[str, int] | None


# Instructions that only move values, call them, and make containers of them, in Python 3.11 to 3.13.
_PLAIN = frozenset(
    """
    BEFORE_WITH BINARY_OP BINARY_SLICE BINARY_SUBSCR BUILD_CONST_KEY_MAP BUILD_LIST BUILD_MAP BUILD_SLICE BUILD_STRING
    BUILD_TUPLE CALL CALL_FUNCTION_EX CLEANUP_THROW CALL_KW CHECK_EXC_MATCH COMPARE_OP CONTAINS_OP COPY COPY_FREE_VARS
    DELETE_FAST DELETE_SUBSCR DICT_MERGE DICT_UPDATE END_FOR END_SEND EXIT_INIT_CHECK EXTENDED_ARG FORMAT_SIMPLE
    FORMAT_WITH_SPEC FOR_ITER GET_ITER GET_LEN GET_YIELD_FROM_ITER IS_OP JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT
    JUMP_FORWARD JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP KW_NAMES LIST_APPEND LIST_EXTEND LIST_TO_TUPLE
    LOAD_ASSERTION_ERROR LOAD_CLOSURE LOAD_FAST LOAD_FAST_AND_CLEAR LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST MAKE_CELL
    MAKE_FUNCTION MAP_ADD MATCH_KEYS MATCH_MAPPING MATCH_SEQUENCE NOP POP_EXCEPT POP_JUMP_BACKWARD_IF_FALSE
    POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE
    POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE
    POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE POP_TOP PRECALL PUSH_EXC_INFO PUSH_NULL RAISE_VARARGS RERAISE RESUME
    RETURN_CONST RETURN_GENERATOR RETURN_VALUE SEND SET_FUNCTION_ATTRIBUTE STORE_FAST STORE_FAST_LOAD_FAST
    STORE_FAST_STORE_FAST STORE_SLICE STORE_SUBSCR SWAP TO_BOOL UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE
    UNPACK_EX UNPACK_SEQUENCE WITH_EXCEPT_START YIELD_VALUE
    """.split()
)
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_FREE = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF"})
_INTRINSICS = frozenset({"INTRINSIC_UNARY_POSITIVE", "INTRINSIC_LIST_TO_TUPLE", "INTRINSIC_STOPITERATION_ERROR"})
CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__"})  # which set attributes of what they make
SPECIAL = frozenset({"__hash__", "__repr__", "__str__"})  # methods whose results are texts and hashes anyway
_REASONS = {
    "BUILD_SET": "it makes a set, whose order differs between processes",
    "DELETE_ATTR": "it deletes an attribute",
    "DELETE_GLOBAL": "it deletes a global variable",
    "IMPORT_NAME": "it imports a module",
    "LOAD_BUILD_CLASS": "it defines a class",
    "STORE_GLOBAL": "it assigns to a global variable",
}
VIEW_READERS = frozenset({"dict", "len", "list", "sorted", "tuple"})  # builtins that a dict's keys may be passed to

_known: WeakKeyDictionary[CodeType, Facts] = WeakKeyDictionary()


def facts_of(code: CodeType) -> Facts:
    """What a code object reads, found once for each."""
    facts = _known.get(code)
    if facts is None:
        facts = _known[code] = _facts(code)
    return facts


def _facts(code: CodeType) -> Facts:
    reads: dict[Any, Read] = {}
    attributes: dict[str, int] = {}
    stored: dict[str, int] = {}
    set_attributes: dict[str, int] = {}
    refusal: tuple[str, int] | None = None
    instructions = list(_instructions(code))
    for at, (name, argument, line, _) in enumerate(instructions):
        reason = None
        if name == "LOAD_GLOBAL" or name in _FREE:
            if name in _FREE and argument in code.co_cellvars:
                continue
            path = _path(instructions, at + 1)
            attribute = _constant_name(instructions, at + 1) if argument in ("getattr", "hasattr") else None
            if attribute is not None:
                attributes.setdefault(attribute, line)
            read = Read(argument, name in _FREE, path, line, attribute is not None)
            reads.setdefault((*read[:3], read.is_attribute), read)
        elif name in _ATTRIBUTE:
            if not _is_in_path(instructions, at, code):
                attributes.setdefault(argument, line)
            if argument in ("keys", "items") and not _is_read_at_once(instructions, at):
                reason = f"it may make a set of a dict's {argument}(), whose order differs between processes"
        elif name == "LOAD_SUPER_ATTR":
            attributes.setdefault(argument, line)
        elif name == "STORE_DEREF":
            if argument not in code.co_cellvars:
                stored.setdefault(argument, line)
        elif name == "STORE_ATTR":
            if code.co_name in CONSTRUCTORS and _loads_first_argument(instructions[at - 1], code):
                set_attributes.setdefault(argument, line)
            else:
                reason = f"it sets the attribute {argument!r}"
        elif name == "LOAD_CONST":
            if type(argument) is frozenset and instructions[at + 1][0] != "CONTAINS_OP":
                reason = _REASONS["BUILD_SET"]
        elif name == "FORMAT_VALUE" or name == "CONVERT_VALUE":
            conversion = argument[0] if name == "FORMAT_VALUE" else argument
            if conversion not in (None, str) and code.co_name not in SPECIAL:
                reason = "it writes a value as repr does, which may show an address in memory"
        elif name == "CALL_INTRINSIC_1":
            if argument not in _INTRINSICS:
                reason = f"its instruction {name} {argument} is not known to be pure"
        elif name not in _PLAIN:
            reason = _REASONS.get(name, f"its instruction {name} is not known to be pure")
        if reason and refusal is None:
            refusal = reason, line
    inner = tuple(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return Facts(tuple(reads.values()), attributes, stored, set_attributes, inner, refusal)


_Instruction = tuple[str, Any, int, bool]  # name, argument, line, whether anything jumps there


def _instructions(code: CodeType) -> Iterator[_Instruction]:
    line, is_target = code.co_firstlineno, False
    for each in dis.get_instructions(code):
        is_target |= each.is_jump_target
        positions = each.positions
        if positions is not None and positions.lineno is not None:
            line = positions.lineno
        if each.opname != "EXTENDED_ARG":
            argument = each.argval
            if each.opname == "CALL_INTRINSIC_1":
                argument = each.argrepr
            yield each.opname, argument, line, is_target
            is_target = False


def _path(instructions: list[_Instruction], at: int) -> tuple[str, ...]:
    """The attributes that the instructions from `at` on read of the value before them."""
    path = []
    for name, argument, _, is_target in instructions[at:]:
        if name not in _ATTRIBUTE or is_target:
            break
        path.append(argument)
    return tuple(path)


def _is_in_path(instructions: list[_Instruction], at: int, code: CodeType) -> bool:
    """Whether the attribute read at `at` is one of the path of a global variable or of an outer function's."""
    while instructions[at][0] in _ATTRIBUTE:
        if instructions[at][3]:
            return False
        at -= 1
    name, argument, *_ = instructions[at]
    return name == "LOAD_GLOBAL" or (name in _FREE and argument not in code.co_cellvars)


def _is_read_at_once(instructions: list[_Instruction], at: int) -> bool:
    """Whether the result of the method at `at` is iterated over at once, or passed to one of `VIEW_READERS`."""
    after = [each[0] for each in instructions[at + 1 : at + 6] if each[0] not in ("PRECALL", "PUSH_NULL", "KW_NAMES")]
    if after[:1] != ["CALL"]:
        return False
    before = [each for each in instructions[max(0, at - 3) : at] if each[0] != "PUSH_NULL"]
    if len(before) < 2 or before[-2][0] != "LOAD_GLOBAL" or before[-1][0] not in ("LOAD_FAST", "LOAD_DEREF"):
        return after[1:2] == ["GET_ITER"]
    return after[1] == "GET_ITER" or (after[1] == "CALL" and before[-2][1] in VIEW_READERS)


def _constant_name(instructions: list[_Instruction], at: int) -> str | None:
    """The name of the attribute that `getattr`, loaded just before, reads: the constant after one variable."""
    while instructions[at][0] == "PUSH_NULL":
        at += 1
    if instructions[at][0] not in ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL"):
        return None
    at += 1 + len(_path(instructions, at + 1))
    name, argument, _, is_target = instructions[at]
    return argument if name == "LOAD_CONST" and type(argument) is str and not is_target else None


def _loads_first_argument(instruction: _Instruction, code: CodeType) -> bool:
    name, argument, *_ = instruction
    last = argument[-1] if name == "LOAD_FAST_LOAD_FAST" else argument
    return name in ("LOAD_FAST", "LOAD_FAST_LOAD_FAST") and last == code.co_varnames[0]
