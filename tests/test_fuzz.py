"""The fuzzer: fixed seeds, by which nothing is found, and that it finds what is planted."""

import ast
import subprocess
import sys

import numpy as np
import pytest

import xpr
from tests.fuzz import checks, known
from tests.fuzz.generate import Generator
from tests.fuzz.programs import Program, Statement, Type
from tests.fuzz.tolerance import compare
from tests.fuzz.worker import Examiner, described, first_of_each, shrunk
from xpr.core.avals import Zero
from xpr.core.primitive import Primitive
from xpr.primitives import elementwise

pytestmark = pytest.mark.optimized

PARTS, PROGRAMS = 2, 25


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_found(part):
    examiner = Examiner()
    found = [each for n in range(PROGRAMS) for each in examiner.examine(f"fixed {part}-{n}")] + examiner.rest()
    hits = [described(x.seed, shrunk(x.program, x.hit, 20.0), x.hit, x.program) for x in first_of_each(found)[:4]]
    hits = [hit for hit in hits if not hit["known"]]
    assert not hits, "\n\n".join(f"{h['seed']} {h['check']}: {h['kind']}\n{h['text']}\n{h['source']}" for h in hits)
    assert examiner.compared > 10 * PROGRAMS


# -- Programs


def test_a_seed_gives_one_program():
    first, again, other = (Generator(seed).program() for seed in ("1-0", "1-0", "1-1"))
    assert first.source() == again.source() != other.source()


def test_programs_differ_in_kind():
    programs = [Generator(f"kinds-{n}").program() for n in range(60)]
    text = "\n".join(program.source() for program in programs)
    for word in (
        "lax.scan",
        "lax.cond",
        "lib.vmap",
        "lib.grad",
        "custom_jvp",
        ".at[",
        "float64",
        "bfloat16",
        "int8",
        "nan",
    ):
        assert word in text, word
    assert any(program.types[name].size == 0 for program in programs for name in program.inputs)
    assert any(program.types[name].weak for program in programs for name in program.inputs)


def test_a_program_runs_as_it_is_printed():
    program = Generator("printed-0").program()
    command = [sys.executable, "-W", "ignore", "-c", program.source()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ast.parse(program.source("jax"))


# -- What is planted is found, and is all that remains of a program


def planted(monkeypatch, primitive: Primitive, slot: str, rule, check: str, text: str = "jnp.sin({0})") -> str:
    """The source of what the check finds when a rule is wrong, in a program that does other things, too."""
    monkeypatch.setattr(primitive, slot, rule)
    monkeypatch.setattr(primitive, "plans", {})
    found = checks.run(a_program(text), [check])
    assert found, f"{check} says nothing"
    hit = found[0]
    assert known.reason(a_program(text), hit) is None
    return shrunk(a_program(text), hit, 60.0).source()


def a_program(text: str) -> Program:
    """Some operations, one of which is that of the text."""
    of, row, yes = Type((2, 3), "float32"), Type((3,), "float32"), Type((), "bool")
    types = {"x1": of, "x2": row, "v3": of, "v4": of, "v5": of, "v6": row, "v7": yes, "v8": of, "v9": of}
    statements = (
        Statement(("v3",), "jnp.tanh({0})", ("x1",)),
        Statement(("v4",), text, ("v3",)),
        Statement(("v5",), "{0} * {1}", ("v4", "x2")),
        Statement(("v6",), "jnp.mean({0}, axis=0)", ("v5",)),
        Statement(("v7",), "jnp.all({0} > -9)", ("v6",)),
        Statement(("v8",), "jnp.where({0}, {1}, {2})", ("v7", "v5", "x1")),
        Statement(("v9",), "jnp.concatenate([{0}[:1], {1}[:1]])", ("v8", "x1")),
    )
    inputs = {
        "x1": "np.array([0.5, -1.25, 0.75, 1.5, -0.25, 1.125], 'float32').reshape((2, 3))",
        "x2": "np.array([0.5, 2.0, -1.5], 'float32')",
    }
    return Program(inputs, statements, ("v9", "v6"), types)


def lines_of(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines() if line.startswith("    v")]


def test_an_unaltered_program_passes():
    assert checks.run(a_program("jnp.sin({0})"), list(checks.CHECKS)) == []


def test_a_wrong_lowering_is_found(monkeypatch):
    source = planted(monkeypatch, elementwise.sin_p, "lower", elementwise.cos_p.lower, "jit")
    assert lines_of(source) == ["v4 = jnp.sin(x1)"]


def test_a_lost_nan_is_found(monkeypatch):
    """Here it is the reference that has one more."""
    monkeypatch.setattr(
        elementwise.sin_p, "reference", lambda values: [np.where(values[0] > 0, np.nan, np.sin(values[0]))]
    )
    source = planted(monkeypatch, elementwise.sin_p, "lower", elementwise.sin_p.lower, "jit")
    assert lines_of(source) == ["v4 = jnp.sin(x1)"]


def wrong_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return [elementwise.sin(x)], [t if type(t) is Zero else elementwise.mul(t, elementwise.sin(x))]


def test_a_wrong_derivative_is_found(monkeypatch):
    program = a_program("jnp.sin({0})")
    double = {name: Type(of.shape, of.dtype.replace("32", "64")) for name, of in program.types.items()}
    inputs = {name: text.replace("32", "64") for name, text in program.inputs.items()}
    program = Program(inputs, program.statements, program.results, double, x64=True)
    assert checks.run(program, ["derivatives"]) == []
    monkeypatch.setattr(elementwise.sin_p, "jvp", wrong_jvp)
    (hit, *_) = checks.run(program, ["derivatives"])
    assert hit.kind == "difference"
    assert lines_of(shrunk(program, hit, 60.0).source()) == ["v4 = jnp.sin(x1)"]


def test_a_wrong_batch_rule_is_found(monkeypatch):
    def batch(size, values, dims):
        return [elementwise.cos(values[0])], [dims[0]]

    assert lines_of(planted(monkeypatch, elementwise.sin_p, "batch", batch, "rows")) == ["v4 = jnp.sin(x1)"]


@pytest.mark.skipif(checks.JAX is None, reason="compares with the peer, which is not installed")
def test_what_the_peer_gives_otherwise_is_found(monkeypatch):
    monkeypatch.setattr(xpr.numpy, "sin", xpr.numpy.cos)
    (hit, *_) = checks.run(a_program("jnp.sin({0})"), ["peer"])
    assert lines_of(shrunk(a_program("jnp.sin({0})"), hit, 60.0).source()) == ["v4 = jnp.sin(x1)"]


# -- How far results may differ


def test_rounding_is_no_difference_and_a_slip_is():
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    samples = [x, x * np.float32(1 + 1e-7)]
    assert compare(x * np.float32(1 + 3e-7), x, samples, 32.0) is None
    assert "instead of" in compare(x * np.float32(1 + 1e-3), x, samples, 32.0)


def test_nan_is_not_lost():
    x = np.float32([1.0, np.nan])
    assert compare(x, x, [x, x], 32.0) is None
    assert "1.0 instead of nan" in compare(np.float32([1.0, 1.0]), x, [x, x], 32.0)
    assert "nan instead of 1.0" in compare(x, np.float32([1.0, 1.0]), [np.float32([1.0, 1.0])], 32.0)


def test_what_rounding_decides_is_not_compared():
    x = np.int32([3])
    assert compare(np.int32([4]), x, [x, np.int32([4])], 32.0) is None
    assert "4 instead of 3" in compare(np.int32([4]), x, [x, x], 32.0)


# -- From the command line


def fuzz(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tests.fuzz", *words], capture_output=True, text=True, timeout=300)


def test_the_command_sums_up():
    done = fuzz("--seed", "command", "--programs", "3", "--jobs", "1", "--check", "jaxprs")
    assert "3 programs" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
