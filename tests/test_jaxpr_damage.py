"""Damaged texts and files of jaxprs: whatever is wrong with them, the error says that, and where in a text."""

import copy
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xpr
from tests.jaxpr_rows import ROWS, jaxprs_of
from xpr.errors import JaxprSyntaxError
from xpr.jaxpr import dumps, loads, parse

PROGRAMS = [next(jaxprs_of(row)) for row in ROWS]
TEXTS = [text for text in map(str, PROGRAMS) if len(text) < 5000]
SAVED = [text for text in map(dumps, PROGRAMS) if len(text) < 5000]
WORDS = sorted({word for text in TEXTS for word in re.findall(r"\w+|\S", text)} | set("\\\"'\0\n∞é"))
VALUES = [
    None, True, -1, 0, 10**30, 1.5, "", "*", "f32[2]", "f32[-1]", "sin", [], {}, [[]], {"list": 1}, {"jaxpr": 0},
    {"enum": "Window", "name": "x"}, {"enum": "checkpoint_policies", "name": "x"}, {"enum": "Mesh", "name": "mro"},
    {"structure": "checkpoint_policies", "fields": {}}, {"structure": "Precision", "fields": {}},
    {"structure": "PolicyByName", "fields": {"names": 1}}, {"scalar": 1e300, "dtype": "f32"}, "f32[1000000000000]",
    {"scalar": "nan", "dtype": "i32"}, {"literal": 1e300, "type": 0}, {"type": 0, "data": "AgIC"}, "pred[3]", "bool[3]",
    {"array": {"type": 0, "data": "////"}}, {"hole": ["function", "eval"]}, {"primitive": "__import__"}, 1e400,
    {"float": "x"}, {"enum": "x", "name": 1}, {"structure": "X", "fields": {}}, {"scalar": 300, "dtype": "u8"},
]  # fmt: skip
OFTEN = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def damaged(draw, texts):
    """A text of which some parts are removed, doubled, or replaced by words of others."""
    text = texts[draw(st.integers(0, len(texts) - 1))]
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, len(text))), draw(st.sampled_from([0, 1, 2, 5, 20, 10**6]))
        parts = ["", text[start : start + length] * 2, *WORDS]
        part = parts[draw(st.integers(0, len(parts) - 1))]
        text = text[:start] + part + text[start + length :]
    return text


@st.composite
def changed(draw):
    """A saved jaxpr of which some values are others, or are missing."""
    whole = json.loads(SAVED[draw(st.integers(0, len(SAVED) - 1))])
    for _ in range(draw(st.integers(1, 4))):
        at = whole
        while True:
            keys = list(at) if isinstance(at, dict) else range(len(at))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], (dict, list)) and draw(st.integers(0, 7)):
                at = at[key]
            elif draw(st.booleans()):
                del at[key]
                break
            else:
                at[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
                break
    return json.dumps(whole)


@OFTEN
@given(damaged(TEXTS))
def test_a_text_is_read_or_the_error_points_into_it(text):
    try:
        str(parse(text))
    except JaxprSyntaxError as error:
        assert 1 <= error.line <= text.count("\n") + 1 and error.column >= 1


@OFTEN
@given(damaged(SAVED) | changed())
def test_a_file_is_read_or_is_said_to_be_damaged(text):
    try:
        str(loads(text))
    except JaxprSyntaxError:
        pass


@OFTEN
@given(st.integers(0, len(SAVED) - 1), st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1))
def test_so_are_bytes(number, changes):
    data = bytearray(SAVED[number], "utf-8")
    for position, byte in changes:
        data[position % len(data)] = byte
    try:
        loads(bytes(data))
    except JaxprSyntaxError:
        pass


ONE = "{ lambda ; a:f32[]. let b:f32[] = %s in (b,) }"


@pytest.mark.parametrize(
    "text, message",
    [
        (ONE % f"integer_pow[y={'9' * 5000}] a", r"column 49: Exceeds the limit .* for integer string conversion"),
        (ONE % f"add a {'9' * 5000}", r"column 41: Exceeds the limit"),
        (ONE.replace("f32[]", f"f32[{'9' * 5000}]", 1) % "sin a", "column 12: expected a variable with its type"),
        (ONE % r"sin[x='\x'] a", r"column 41: this is no string: \(unicode error\)"),
        (ONE % r"'\N{nothing}' a", r"column 35: this is no string: \(unicode error\)"),
        (ONE % r"sin[x=<f '\x'>] a", r"column 41: this is no string: \(unicode error\)"),
    ],
)
def test_numbers_and_strings_that_python_does_not_read(text, message):
    with pytest.raises(JaxprSyntaxError, match=f"line 1, {message}"):
        parse(text)


@pytest.mark.parametrize(
    "shape, message",
    [
        ("2Checks,3", "expected ',', and found 'Checks' after '2'"),
        ("max(a", "expected ',', and found the end"),
        ("a^-1", "expected an integer below 1000, and found '-'"),
        ("9^9999999999*a", "expected an integer below 1000, and found '9999999999'"),
        ("9999999999999999999*a", "expected an integer, and found"),
        ("mod(a, 0)", "expected a divisor that is not zero"),
        ("floordiv(2, 0)", "expected a divisor that is not zero"),
        ("a-a-1", "has a negative dimension, -1"),
    ],
)
def test_symbolic_dimensions_that_are_none(shape, message):
    with pytest.raises(JaxprSyntaxError, match=rf"line 1, column 12: The symbolic shape '.*{re.escape(message)}"):
        parse((ONE % "sin a").replace("f32[]", f"f32[{shape}]", 1))


def test_a_text_is_a_string():
    with pytest.raises(TypeError, match=r"parse reads the text of a jaxpr, and got b'{'"):
        parse(b"{")


def test_a_file_that_is_nested_too_deeply():
    with pytest.raises(JaxprSyntaxError, match="This is no saved jaxpr: it is not JSON"):
        loads("[" * 100_000)
    deep = dumps(xpr.make_jaxpr(lambda x: x**2)(1.0)).replace('{"y":2}', '{"y":' + "[" * 900 + "]" * 900 + "}")
    try:
        loads(deep)  # how deep is too deep depends on Python
    except JaxprSyntaxError as error:
        assert "This saved jaxpr is damaged: RecursionError" in str(error)
