"""What one process does: it makes programs, checks them, shrinks what fails, and tells the process that watches it.

Lines of JSON on standard output: `{"at": 5}` before the program of number 5, `{"hit": ...}` for what is found, `{"counts":
...}` now and then.
"""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.fuzz import checks, known
from tests.fuzz.checks import JAX, Case, Hit
from tests.fuzz.generate import Generator, Refusal
from tests.fuzz.programs import Program
from tests.fuzz.shrink import shrink

LIMIT = 120  # seconds of a program
SHRINKING = 25.0  # seconds at most


class TooSlow(BaseException):
    """A program took longer than `LIMIT`, in Python: the references of large arrays do."""


def _too_slow(*_: Any) -> None:
    raise TooSlow


def refused(refusal: Refusal) -> Hit | None:
    """A hit if the peer accepts what this library refused."""
    if JAX is None:
        return None
    program = refusal.program
    with checks.settings(program):
        try:
            JAX.eval_shape(program.function(JAX), *program.values())
        except Exception:
            return None
    return Hit("refused", refusal.error[:100], refusal.error)


def still_refused(program: Program) -> bool:
    with checks.settings(program):
        try:
            JAX.eval_shape(program.function(JAX), *program.values())
        except Exception:
            return False
        try:
            checks.xpr.make_jaxpr(program.function(checks.xpr))(*program.values())
        except Exception:
            return True
    return False


def fails_alike(hit: Hit) -> Any:
    """Whether a program fails as the hit says."""
    if hit.check == "refused":
        return still_refused
    name = hit.check.split(" ")[0]

    def fails(program: Program) -> bool:
        try:
            found = checks.run(program, [name] if name in checks.CHECKS else [])
        except TooSlow:
            raise
        except Exception:
            return False
        return any(each.check == hit.check and each.kind[:40] == hit.kind[:40] for each in found)

    return fails


def examined(seed: str, only: Sequence[str] = ()) -> tuple[Program, list[tuple[Program, Hit]], int]:
    """The program of a seed, its hits, each with the program that has it, and how many results were compared."""
    generator = Generator(seed)
    program = generator.program()
    found: list[tuple[Program, Hit]] = []
    for refusal in generator.refusals[:2] if not only or "refused" in only else ():
        hit = refused(refusal)
        if hit is not None:
            found.append((refusal.program, hit))
    case = Case(program)
    names = [name for name in only if name in checks.CHECKS] if only else checks.turns(seed)
    found.extend((program, hit) for hit in checks.run(program, names, case))
    return program, found, case.compared


def first_of_each(found: Sequence[tuple[Program, Hit]]) -> list[tuple[Program, Hit]]:
    return list({(hit.check.split(" ")[0], hit.kind): (program, hit) for program, hit in reversed(found)}.values())


def work(seed: str, start: int, step: int, until: float, last: int, only: Sequence[str], fewer: bool) -> None:
    """Programs number start, start + step ... until the time is over."""
    signal.signal(signal.SIGALRM, _too_slow)
    seen: dict[tuple[str, str], int] = {}
    shrinking, began = 0.0, time.monotonic()
    for number in range(start, last, step):
        if time.time() > until:
            break
        tell(at=number)
        name = f"{seed}-{number}"
        try:
            signal.alarm(LIMIT)
            program, found, compared = examined(name, only)
            signal.alarm(0)
        except TooSlow:
            tell(slow=name)
            continue
        tell(done=number, compared=compared)
        for program, hit in first_of_each(found):
            key = (hit.check, hit.kind)
            seen[key] = seen.get(key, 0) + 1
            many = seen[key] > (3 if hit.kind not in ("value", "type") else 10_000)
            if many or (shrinking > 60 and shrinking > 0.4 * (time.monotonic() - began)):
                if many:
                    tell(again=[hit.check, hit.kind])
                else:
                    tell(hit=described(name, program, hit, program))
                continue
            before = time.monotonic()
            small = program if fewer else shrunk(program, hit)
            shrinking += time.monotonic() - before
            tell(hit=described(name, small, hit, program))
    tell(finished=True)


def shrunk(program: Program, hit: Hit, seconds: float = SHRINKING) -> Program:
    try:
        signal.alarm(LIMIT)
        return shrink(program, fails_alike(hit), seconds)
    except TooSlow:
        return program
    finally:
        signal.alarm(0)


def described(name: str, small: Program, hit: Hit, program: Program) -> dict[str, Any]:
    if small is not program and hit.check != "refused":
        again = checks.run(small, [hit.check.split(" ")[0]] if hit.check.split(" ")[0] in checks.CHECKS else [])
        hit = next((each for each in again if each.check == hit.check), hit)
    operations = sorted({operation_of(s.text) for s in small.all_statements()})
    return {
        "seed": name, "check": hit.check, "kind": hit.kind, "text": hit.text, "source": small.source(),
        "operations": operations, "known": known.reason(small, hit),
    }  # fmt: skip


def operation_of(text: str) -> str:
    return text.split("\n")[-1].replace("{0}", "_").replace("{1}", "_").replace("{2}", "_")[:60]


def tell(**message: Any) -> None:
    print(json.dumps(message), flush=True)


# -- Programs that end their process


def alone(program: Program, check: str, seconds: float = 60.0) -> bool:
    """Whether a process of its own ends, or hangs, by running the checks of a program."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--alone", check]
    try:
        done = subprocess.run(command, input=pickle.dumps(program), capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode not in (0, 1)
