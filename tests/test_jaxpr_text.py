"""Text of jaxprs both ways: printing in every look, and reading back what was printed."""

import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.jaxpr_rows import ROWS, jaxprs_of, with_holes
from xpr import core, lax, nn
from xpr.core.primitive import SLOTS, Unsupported, registered
from xpr.errors import HoleError, JaxprSyntaxError, JaxprTypeError
from xpr.extend import Primitive, register_parameter
from xpr.jaxpr import equal, parse, pformat
from xpr.text.literals import DTYPES
from xpr.text.parameters import parameter_text
from xpr.text.printer import letters

pytestmark = pytest.mark.quick

F32 = np.float32


def read_back(closed, **look):
    return parse(closed.pformat(**look), closed.consts)


# -- Laws


@pytest.mark.parametrize("row", ROWS, ids=[str(row.primitive) for row in ROWS])
def test_what_is_printed_is_read_back(row):
    for closed in jaxprs_of(row):
        expected = with_holes(closed)
        assert equal(read_back(closed), expected)
        assert equal(read_back(closed, width=100_000), expected)  # on one line
        assert equal(read_back(closed, width=1, source=True), expected)
        core.check_jaxpr(read_back(closed).jaxpr) if not _has_holes(closed) else None


def _has_holes(closed):
    return not equal(closed, with_holes(closed))


def changed(closed, at, params):
    """The program with other parameters of one of its equations."""
    eqns = [eqn.replace(params=params) if eqn is at else eqn for eqn in closed.eqns]
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))


@pytest.mark.parametrize("row", ROWS, ids=[str(row.primitive) for row in ROWS])
def test_other_parameters_than_those_of_the_primitive_are_refused(row):
    closed = next(jaxprs_of(row))
    for eqn in closed.eqns:
        eqn.primitive.check_params(eqn.params)
        for name in [name for name in eqn.params if name not in eqn.primitive.optional]:
            with pytest.raises(TypeError, match=rf"{eqn.primitive}` needs the parameter {name}\. Its parameters are: "):
                eqn.primitive.check_params({key: value for key, value in eqn.params.items() if key != name})
        more = changed(closed, eqn, {**eqn.params, "more": 1})
        message = rf"`{eqn.primitive}` has no parameter more\. Its parameters are: "
        with pytest.raises(JaxprTypeError, match=message):
            core.check_jaxpr(more)
        with pytest.raises(JaxprSyntaxError, match=rf"line \d+, column \d+: {message}"):
            parse(str(more))
        with pytest.raises(JaxprSyntaxError, match=message):
            xpr.jaxpr.loads(xpr.jaxpr.dumps(more))


def test_every_primitive_of_the_library_names_its_parameters():
    assert [p.name for p in registered.values() if p.params is None and Primitive not in type(p).__mro__] == []


def test_no_equation_is_written_or_run_with_other_parameters():
    for run in (lax.sin_p.bind, xpr.make_jaxpr(lax.sin_p.bind)):
        with pytest.raises(TypeError, match="`sin` has no parameter more. Its parameters are: none."):
            run(1.0, more=1)


def test_primitives_of_users_take_what_their_rules_do():
    scaled_p = Primitive("scaled_of_test")
    scaled_p.def_lowering_as(lambda x, *, by=2.0: x * by)
    text = "{ lambda ; a:f32[]. let b:f32[] = scaled_of_test[by=3.0] a in (b,) }"
    assert core.jaxpr_as_fun(parse(text))(2.0) == [6.0] and str(parse(text)) == text
    assert core.jaxpr_as_fun(parse(text.replace("[by=3.0]", "")))(2.0) == [4.0]
    with pytest.raises(JaxprSyntaxError, match=r"can't be applied to f32\[\]: .* unexpected keyword argument 'to'"):
        parse(text.replace("by", "to"))


# -- Printing


def one_of_three(index, arg):
    return lax.switch(index, [lambda x: x + 1.0, lambda x: x - 2.0, lambda x: x + 3.0], arg)


def test_untyped_text_looks_as_in_2020():
    def func1(first, second):
        temp = first + jnp.sin(second) * 3.0
        return jnp.sum(temp)

    assert (
        pformat(xpr.make_jaxpr(func1)(jnp.zeros(8), jnp.ones(8)), types=False)
        == """\
{ lambda  ; a b.
  let c = sin b
      d = mul c 3.0
      e = add a d
      f = reduce_sum[ axes=(0,) ] e
  in (f,) }"""
    )
    closed = xpr.make_jaxpr(one_of_three)(1, 5.0)
    cond = closed.replace(jaxpr=core.Jaxpr([], closed.eqns[-1].invars, closed.eqns[-1].outvars, closed.eqns[-1:]))
    assert (
        cond.pformat(types=False)
        == """\
{ lambda  ; a b.
  let c = cond[ branches=( { lambda  ; a.
                             let b = add a 1.0
                             in (b,) }
                           { lambda  ; a.
                             let b = sub a 2.0
                             in (b,) }
                           { lambda  ; a.
                             let b = add a 3.0
                             in (b,) } )
                linear=(False,) ] a b
  in (c,) }"""
    )


def test_untyped_text_of_constants_and_of_nothing():
    table = np.arange(3, dtype=F32)
    assert pformat(xpr.make_jaxpr(lambda x: x * table)(table), types=False).startswith("{ lambda a ; b.\n  let c = mul")
    assert pformat(xpr.make_jaxpr(lambda x: x)(1.0), types=False) == "{ lambda  ; a.\n  let \n  in (a,) }"


def test_source_lines_stand_beside_equations_in_one_column():
    def fun(x):
        y = jnp.sin(x)
        return y * 2.0

    for look in ({}, {"types": False}):
        lines = [line for line in xpr.make_jaxpr(fun)(1.0).pformat(source=True, **look).splitlines() if "#" in line]
        assert [line.split("# ")[1].split(": ")[1] for line in lines] == ["y = jnp.sin(x)", "return y * 2.0"]
        assert all("test_jaxpr_text.py" in line and "(fun)" in line for line in lines)
        assert len({line.index("#") for line in lines}) == 1


def test_functions_of_the_library_have_the_lines_of_their_calls():
    def twice(x):
        y = nn.softmax(x)
        return y + nn.softmax(y)

    xpr.make_jaxpr(lambda x: nn.softmax(x))(F32([1, 2]))  # it is traced here
    closed = xpr.make_jaxpr(twice)(F32([1, 2]))
    for each, calls in ((closed, 1), (xpr.jaxpr.inline_calls(closed), 0)):
        text = each.pformat(source=True)
        assert text.count(": y = nn.softmax(x)") == 7 + calls  # that of its rule, too
        assert text.count(": return y + nn.softmax(y)") == 8 + calls


def test_color_changes_nothing_but_color():
    closed = xpr.make_jaxpr(one_of_three)(1, 5.0)
    colored = closed.pformat(color=True)
    assert "\x1b[1;34mlambda\x1b[0m" in colored and "\x1b[35mf32[]\x1b[0m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == str(closed)


def test_width():
    closed = xpr.make_jaxpr(one_of_three)(1, 5.0)
    assert "\n" not in closed.pformat(width=10_000)
    assert max(map(len, closed.pformat(width=40).splitlines())) <= 44
    assert closed.pformat() == str(closed) == closed.jaxpr.pformat(width=80)


def test_words_of_the_language_are_no_names():
    def many(x):
        for _ in range(400):
            x = jnp.sin(x)
        return x

    closed = xpr.make_jaxpr(many)(1.0)
    assert letters(8 * 26 + 13) == "in" and " in:f32" not in str(closed)
    assert equal(read_back(closed), closed)


@pytest.fixture
def free(monkeypatch):
    """A primitive that takes and gives whatever is written."""
    slots: Any = dict.fromkeys(SLOTS, Unsupported("It is only written."))
    primitive = type(lax.sin_p)("free", **slots, multiple_results=True)
    monkeypatch.setitem(registered, "free", primitive)
    return primitive


# -- Literals


@pytest.mark.parametrize("dtype", sorted(d for d in DTYPES if d != "float0"))
def test_literals_keep_their_dtype_and_value(dtype, free):
    aval = core.ShapedArray((), DTYPES[dtype])
    for value in (0, 1, 0.1, -0.0, np.nan, np.inf, -np.inf, 3e-5, 1 + 2j, complex(-0.0, np.nan)):
        try:
            with np.errstate(all="ignore"):
                literal = core.Literal(np.asarray(value).astype(aval.dtype)[()], aval)
        except (TypeError, ValueError, np.exceptions.ComplexWarning):
            continue
        for other in ("f32", "u8", dtype):
            var = core.Var(core.ShapedArray((2,), DTYPES[other]))
            eqn = core.JaxprEqn([literal, var], [core.Var(aval)], free, {})
            closed = core.ClosedJaxpr(core.Jaxpr([], [var], [*eqn.outvars, literal], [eqn]), [])
            assert equal(parse(str(closed)), closed), str(closed)


def test_a_dtype_is_written_where_the_equation_does_not_say_it():
    assert "] 2.0:f16\n" in str(xpr.make_jaxpr(lambda: lax.convert_element_type(np.float16(2), F32) + 0)())
    assert " 2.0 " in str(xpr.make_jaxpr(lambda x: x * 2.0)(np.ones(2, np.float16)))


def test_a_literal_of_a_wrong_dtype_is_refused():
    with pytest.raises(JaxprSyntaxError, match="300 out of bounds for uint8"):
        parse("{ lambda ; a:u8[]. let b:u8[] = add a 300 in (b,) }")


# -- Primitives


def test_primitives_with_odd_names_are_quoted():
    for name in ("two words", "it's", "a = b", "in"):
        odd_p = Primitive(name)
        odd_p.def_lowering_as(lambda x: x)
        closed = xpr.make_jaxpr(odd_p.bind)(1.0)
        assert read_back(closed).eqns[0].primitive is odd_p
        assert f"= {name if name == 'in' else repr(name)} a" in str(closed)


# -- Parameters


@register_parameter
class Border(NamedTuple):
    width: int
    name: str


class Grid:
    """A structure that is no tuple."""

    def __init__(self, sizes, names):
        self.axes = dict(zip(names, sizes, strict=True))

    def __eq__(self, other):
        return isinstance(other, Grid) and self.axes == other.axes

    def __hash__(self):
        return hash(tuple(self.axes))


register_parameter(Grid, lambda grid: {"sizes": tuple(grid.axes.values()), "names": tuple(grid.axes)})

PARAMETERS = [
    None, True, 0, -3, 1.5, -0.0, float("nan"), float("-inf"), 1 + 2j, "word", "two words", "None", "int32", "nan",
    "x.y", "it's", "", "f32[2]", "a=b", "<lambda>", "<function f>", "2", (), (1,), (1, 2.5, "word"), ((), ((1,), None)),
    [], [1], ["word", ("a",)], np.dtype("int32"), np.dtype(bool), DTYPES["bf16"], DTYPES["float0"],
    core.ShapedArray((2, 3), F32),
    lax.Precision.HIGHEST, (lax.Precision.HIGH, None), lax.GatherScatterMode.CLIP, lax.ge_p, (lax.ge_p, lax.add_p),
    np.float32(0.1), np.int8(-3), DTYPES["bf16"].type(0.1), Border(2, "two words"), (Border(1, "b"),), np.complex64(1j),
    Grid((2, 3), ("x", "y")), (Grid((), ()),),
]  # fmt: skip


@pytest.mark.parametrize("value", PARAMETERS, ids=parameter_text)
def test_parameters_keep_their_type_and_value(value, free):
    eqn = core.JaxprEqn([], [], free, {"p": value, "q": 1})
    closed = core.ClosedJaxpr(core.Jaxpr([], [], [], [eqn]), [])
    again = read_back(closed)
    assert equal(again, closed)
    assert type(again.eqns[0].params["p"]) is type(value)


def test_names_of_jitted_functions_are_read_as_names():
    for name in ("float32", "nan", "None", "ge", "<lambda>", "my-fun"):
        function = lambda x: x * 2.0
        function.__name__ = name
        closed = xpr.make_jaxpr(xpr.jit(function))(1.0)
        assert read_back(closed).eqns[0].params["name"] == name


def test_two_classes_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"Precision is the name of xpr.primitives.precision.Precision"):
        register_parameter(type("Precision", (), {}))


def test_functions_are_holes_unless_they_are_given():
    @xpr.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), 5.0 * tangents[0]))
    closed = xpr.make_jaxpr(sine)(1.0)
    assert "jvp=<function jvp>" in str(closed)
    holed = core.jaxpr_as_fun(parse(str(closed)))
    assert float(holed(2.0)[0]) == pytest.approx(np.sin(2.0))
    with pytest.raises(HoleError, match=r"<function jvp> is a hole: .* functions=\{'jvp': ...\}"):
        xpr.jvp(holed, (2.0,), (1.0,))
    whole = parse(str(closed), functions={"jvp": closed.eqns[0].params["jvp"]})
    assert equal(whole, closed) and not equal(parse(str(closed)), closed)
    assert float(xpr.jvp(core.jaxpr_as_fun(whole), (2.0,), (1.0,))[1][0]) == 5.0


@pytest.mark.parametrize("row", ROWS, ids=[str(row.primitive) for row in ROWS])
def test_with_its_functions_a_program_is_the_same_again(row):
    for closed in jaxprs_of(row):
        functions = xpr.jaxpr.functions(closed)
        assert equal(parse(str(closed), closed.consts, functions), closed)
        assert equal(xpr.jaxpr.loads(xpr.jaxpr.dumps(closed), functions), closed)


def times(factor):
    @xpr.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), factor * tangents[0]))
    return sine


FIVE, SEVEN = times(5.0), times(7.0)


class TestFunctionsOfOneName:
    closed = xpr.make_jaxpr(lambda x: xpr.jit(FIVE)(x) + SEVEN(x) + xpr.jit(FIVE)(2 * x))(1.0)

    def test_are_listed_in_the_order_of_the_text(self):
        first, second, third = xpr.jaxpr.functions(self.closed)["jvp"]
        assert first is not second
        functions = {"jvp": [first, second, third]}
        for again in (
            parse(str(self.closed), functions=functions),
            xpr.jaxpr.loads(xpr.jaxpr.dumps(self.closed), functions=functions),
        ):
            assert equal(again, self.closed)
            assert xpr.jvp(core.jaxpr_as_fun(again), (1.0,), (1.0,))[1] == [5.0 + 7.0 + 10.0]

    def test_are_as_many_as_there_are_occurrences(self):
        for rules in ([], [abs] * 2, [abs] * 4):
            with pytest.raises(
                TypeError,
                match=rf"parse: functions\['jvp'\] is a list of {len(rules)}, and there are 3 occurrences",
            ):
                parse(str(self.closed), functions={"jvp": rules})

    def test_are_distinguished_by_files_that_have_been_read(self):
        functions = xpr.jaxpr.functions(self.closed)
        text = xpr.jaxpr.dumps(self.closed)
        assert xpr.jaxpr.dumps(xpr.jaxpr.loads(text)) == text
        assert equal(xpr.jaxpr.loads(xpr.jaxpr.dumps(xpr.jaxpr.loads(text)), functions), self.closed)
        with pytest.raises(
            TypeError, match=r"loads: functions\['jvp'\] is a list of 3, and there are 1 different ones"
        ):
            xpr.jaxpr.loads(xpr.jaxpr.dumps(parse(str(self.closed))), functions)

    def test_stay_holes_where_none_is_given(self):
        again = parse(str(self.closed))
        assert xpr.jaxpr.functions(again) == {} and equal(again, with_holes(self.closed))
        assert equal(parse(str(self.closed), functions={"other": abs}), again)


# -- Constants


CONSTANT = "{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = mul a b in (c,) }"


@pytest.mark.parametrize("read", [parse, xpr.jaxpr.loads])
class TestFillingCallbacks:
    @staticmethod
    def program(read, fun, *args, **functions):
        closed = xpr.make_jaxpr(fun)(*args)
        return xpr.jaxpr.jaxpr_as_fun(
            read(str(closed) if read is parse else xpr.jaxpr.dumps(closed), functions=functions)
        )

    def test_the_function_itself_fills_the_hole(self, read):
        fun = self.program(read, lambda x: xpr.pure_callback(np.sin, x, x, vmap_method="sequential"), 2.0, sin=np.sin)
        expected = np.sin(np.float32(2))
        for run in (fun, xpr.jit(fun)):
            np.testing.assert_allclose(run(2.0)[0], expected)
        np.testing.assert_allclose(xpr.vmap(fun)(jnp.full(3, 2.0))[0], [expected] * 3)

    def test_several_results_and_none(self, read):
        def both(x, y):
            return x + y, x - y

        fun = self.program(read, lambda x: xpr.pure_callback(both, (x, x), x, 1.0), 2.0, both=both)
        assert fun(2.0) == [3.0, 1.0]
        seen = []
        fun = self.program(read, lambda x: xpr.io_callback(print, None, x), 2.0, print=lambda x: seen.append(float(x)))
        assert fun(5.0) == [] and seen == [5.0]

    def test_what_does_not_fit(self, read):
        fun = self.program(read, lambda x: xpr.pure_callback(np.sin, x, x), 2.0, sin=lambda x: (x, x))
        with pytest.raises(xpr.errors.TreeMismatch, match="must give as many arrays as were declared"):
            fun(2.0)
        fun = self.program(read, lambda x: xpr.pure_callback(np.sin, x, x), 2.0, sin=3)
        with pytest.raises(TypeError, match="callback takes a callable, and got 3"):
            fun(2.0)
        fun = self.program(read, lambda x: xpr.pure_callback(np.sin, x, x), 2.0)
        with pytest.raises(HoleError, match="<function sin> is a hole"):
            fun(2.0)


def test_constants_are_holes_unless_they_are_given():
    given = parse(CONSTANT, [np.arange(3, dtype=F32)])
    np.testing.assert_array_equal(core.jaxpr_as_fun(given)(np.full(3, 2, F32))[0], [0, 2, 4])
    empty = core.jaxpr_as_fun(parse(CONSTANT))
    for run in (empty, xpr.jit(empty)):
        with pytest.raises(HoleError, match=r"A constant of type f32\[3\] has no value"):
            run(np.ones(3, F32))


@pytest.mark.parametrize("constants", [[], [np.ones(4, F32)], [np.ones(3, F32)] * 2, [np.ones(3, np.int32)]])
def test_constants_have_the_types_of_the_text(constants):
    with pytest.raises(
        TypeError, match=r"differ from those of the text.\n  the text takes   f32\[3\]\n  it was given "
    ):
        parse(CONSTANT, constants)


def test_constants_of_64_bits_are_kept_whatever_the_setting():
    with xpr.enable_x64(True):
        closed = xpr.make_jaxpr(lambda x: x * np.arange(3.0))(np.ones(3))
    assert closed.in_avals[0].dtype == np.float64
    assert equal(parse(str(closed), closed.consts), closed)
    assert equal(xpr.jaxpr.loads(xpr.jaxpr.dumps(closed)), closed)


def test_constants_of_jaxprs_inside_come_in_the_order_of_the_text():
    twice_p = Primitive("twice_of_test", multiple_results=True)
    innermost = core.JaxprEqn([], [], twice_p, {"inner": xpr.make_jaxpr(lambda: np.arange(5, dtype=F32) + 1)()})
    inner = xpr.make_jaxpr(lambda x: x + np.arange(2, dtype=F32))(np.ones(2, F32))
    inner = inner.replace(jaxpr=inner.jaxpr.replace(eqns=[innermost, *inner.eqns]))
    outer = core.JaxprEqn([], [], twice_p, {"inner": inner})
    closed = core.ClosedJaxpr(core.Jaxpr([core.Var(core.ShapedArray((1,), F32))], [], [], [outer]), [np.ones(1, F32)])
    again = parse(str(closed), [np.ones(1, F32), np.arange(2, dtype=F32), np.arange(1, 6, dtype=F32)])
    assert equal(again, closed)
    assert not equal(parse(str(closed)), closed)


# -- Units, fillers and what is not read


def test_units_print_and_parse_as_stars(free):
    text = "{ lambda ; a:f32[] *. let * b:f32[] = free a *; * = free a in (b, *) }"
    closed = parse(text)
    assert closed.jaxpr.invars[1] is core.unitvar and closed.eqns[0].invars[1] is core.unitvar
    assert repr(core.unit) == repr(core.unitvar) == "*"
    assert closed.pformat(width=200) == text
    literal = closed.jaxpr.replace(outvars=[closed.jaxpr.outvars[0], core.Literal(core.unit)])
    assert str(literal) == str(closed) and equal(literal, closed)


def test_units_are_always_bound():
    jaxpr = core.Jaxpr([], [], [core.unitvar], [])
    core.check_jaxpr(jaxpr)
    assert core.eval_jaxpr(jaxpr, ()) == [core.unit]


def test_fillers_and_underscores():
    text = "{ lambda ; a_:f32[] b:f32[]. let _:f32[] = sin b in (b,) }"
    closed = parse(text)
    assert str(closed) == text
    assert type(closed.jaxpr.invars[0]).__name__ == "FillerVar" and type(closed.eqns[0].outvars[0]) is core.DropVar


# -- Errors


@pytest.mark.parametrize(
    "text, message, caret",
    [
        ("{ lambda ; a:f32[]. let b:f32[] = sinn a in (b,) }", "no primitive `sinn`; did you mean `sin`?", "sinn"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin c in (b,) }", "`c` is not bound in this jaxpr.", "c in"),
        ("{ lambda ; a:f33[]. let in (a,) }", "there is no dtype `f33`; did you mean `f32`?", "a:f33"),
        ("{ lambda ; a:f32[]. let a:f32[] = sin a in (a,) }", "`a` is bound a second time.", "a:f32[] ="),
        ("{ lambda ; a:f32[]. let b:f32[] c = sin a in (b,) }", "expected an equation (`b:f32[] = sin a`)", "c = sin"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin a % in (b,) }", "and found `%`.", "% in"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[p=(0,] a in (b,) }", "expected a value, and found `]`.", "] a in"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[p=1 x] a in (b,) }", "expected `name=` of a parameter or `]`", "x] a"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[p=1 p=2] a in (b,) }", "`p` is given a second time.", "p=2"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[p=Precision.HIG] a in (b,) }", "no member `HIG`; did you mean", "Prec"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[p=Precisio.HIGH] a in (b,) }", "did you mean `Precision`?", "Prec"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[p=Border(a=1)] a in (b,) }", "has the fields width, name", "Bord"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[p=Grid(a=1)] a in (b,) }", "unexpected keyword argument 'a'", "Grid"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[p=<primitive sin_>] a in (b,) }", "no primitive `sin_`", "<prim"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[p=2:f99] a in (b,) }", "there is no dtype `f99`", "2:f99"),
        ("{ lambda ; a:f32[3]. let b:f32[4] = sin a in (b,) }", "`b:f32[4]` is bound as f32[4], and `sin`", "b:f"),
        ("{ lambda ; a:f32[]. let b:f32[] c:f32[] = sin a in (b,) }", "`sin` gives 1 results, and 2 are bound.", "b:f"),
        ("{ lambda ; a:f32[] b:f32[3] c:i32[3]. let d:f32[] = add b c in (d,) }", "can't be applied to f32[3]", "add"),
        ("{ lambda ; a:f32[3]. let b:f32[] = reduce_sum[axez=(0,)] a in (b,) }", "no parameter axez and needs", "redu"),
        ("{ lambda ; a:f32[3]. let b:f32[] = reduce_sum a in (b,) }", "needs the parameter axes. Its par", "redu"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin[foo=3] a in (b,) }", "has no parameter foo. Its parameters", "sin"),
        ("{ lambda ; a:f32[3]. let b:f32[] = reduce_sum[axes=(5,)] a in (b,) }", "they must be different", "redu"),
        ("{ lambda ; . let = scan[f={ lambda ; c:f32[]. let d:i8[] = sin c in (d,) }] in () }", "gives f32[]", "d:i8"),
        ("{ lambda ; a:i32[]. let = cond[branches=() linear=()] a in () }", "there are no branches.", "cond"),
        ("{ lambda ; a:f32[] let in (a,) }", "expected `. let`, and found `let`.", "let"),
        ("{ lambda ; a:f32[]. let in (a,) } more", "expected the end of the text, and found `more`.", "more"),
        ("hello", "expected `{ lambda`, and found `hello`.", "hello"),
    ],
)  # fmt: skip
def test_errors_point_into_the_text(text, message, caret):
    with pytest.raises(JaxprSyntaxError) as caught:
        parse(f"# a comment\n{text}")
    first, line, pointer = str(caught.value).splitlines()[:3]
    column = text.rindex(caret) + 1 if caret in ("x] a", "p=2", "let") else text.index(caret) + 1
    assert message in first and first.startswith(f"line 2, column {column}: ")
    assert line == "    " + text and pointer.index("^") == column + 3
    assert (caught.value.line, caught.value.column) == (2, column)


SCAN = (
    "{ lambda ; a:f32[]. let b:f32[] = scan[jaxpr={ lambda ; c:f32[]. let d:%s in (d,) } length=3 linear=(False,) "
    "num_carry=1 num_consts=0 reverse=False unroll=1] a in (b,) }"
)


def test_a_scan_carries_what_it_was_given():
    parse(SCAN % "f32[] = sin c")
    with pytest.raises(JaxprSyntaxError, match=r"go in as \(f32\[\]\), and come out as \(i32\[\]\)"):
        parse(SCAN % "i32[] = convert_element_type[new_dtype=int32 weak_type=False] c")
    with pytest.raises(JaxprSyntaxError, match="the 7 carries must come out of the body as they go in"):
        parse(SCAN.replace("carry=1", "carry=7") % "f32[] = sin c")


def test_types_that_are_known_only_where_a_program_runs(free):
    text = "{ lambda ; a:f32[]. let b:f32[7] = free[axes=3] a in (b,) }"
    assert str(parse(text)) == text


def test_the_end_of_the_text():
    with pytest.raises(JaxprSyntaxError, match=r"line 1, column 25: expected .* or `in \(...\)`, and found `in`"):
        parse("{ lambda ; a:f32[]. let in")
    with pytest.raises(JaxprSyntaxError, match=r"line 1, column 30: expected `\) }`, and found the end of the text"):
        parse("{ lambda ; a:f32[]. let in (a")
    with pytest.raises(JaxprSyntaxError, match="expected `{ lambda`, and found the end"):
        parse("  \n")


def test_untyped_text_is_refused_with_the_reason():
    with pytest.raises(JaxprSyntaxError, match=r"The text has no types, as pformat\(types=False\) writes it"):
        parse(xpr.make_jaxpr(jnp.sin)(1.0).pformat(types=False))


def test_long_lines_are_shortened_around_the_position():
    text = "{ lambda ; a:f32[]. let " + "_:f32[] = sin a; " * 50 + "b:f32[] = sinn a in (b,) }"
    with pytest.raises(JaxprSyntaxError) as caught:
        parse(text)
    _, line, pointer = str(caught.value).splitlines()
    assert len(line) <= 104 and line[pointer.index("^") :].startswith("sinn a")


def test_a_failed_reading_leaves_nothing_behind():
    with pytest.raises(JaxprSyntaxError):
        parse("{ lambda ; a:f32[]. let b:f32[] = xla_call[f={ lambda ; c:f32[]. let in (a,) }] a in (b,) }")
    with pytest.raises(JaxprSyntaxError, match="`c` is not bound"):
        parse("{ lambda ; . let in (c,) }")


def test_jax_s_name_and_options_of_the_text():
    closed = xpr.make_jaxpr(jnp.sin)(1.0)
    assert closed.pretty_print() == str(closed)
    assert closed.pretty_print(name_stack=True) == closed.jaxpr.pformat(names=True) == pformat(closed, names=True)
    assert closed.pretty_print(print_shapes=False, source_info=True) == pformat(closed, types=False, source=True)
    assert closed.pretty_print(use_color=True) == pformat(closed, color=True)


def test_names_of_scopes_are_comments():
    @xpr.named_scope("outer")
    def f(x):
        with xpr.named_scope("inner"):
            y = xpr.jit(xpr.named_scope("called")(jnp.sin))(x)
        return -y

    closed = xpr.make_jaxpr(lambda x: f(x) + 1.0)(1.0)
    text = closed.pretty_print(name_stack=True)
    comments = [line.partition("  # ")[2] for line in text.splitlines() if "  # " in line]
    assert comments == ["[outer/inner]", "[called]", "[outer]", "[]"]
    assert str(parse(text)) == str(closed)
    both = closed.pretty_print(name_stack=True, source_info=True)
    assert "# [outer] test_jaxpr_text.py:" in both and str(parse(both)) == str(closed)
    assert "# [outer/inner]" in closed.pretty_print(name_stack=True, print_shapes=False)
    assert "# []" in parse(str(closed)).pretty_print(name_stack=True)
