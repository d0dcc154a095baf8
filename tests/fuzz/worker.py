"""What one process does: it makes programs, checks them, shrinks what fails, and tells the process that watches it.

Lines of JSON on standard output: `{"at": 5}` before the program of number 5, `{"done": 5 ...}` after it, and
`{"hit": ...}` for what is found.
"""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.fuzz import checks, known
from tests.fuzz.checks import JAX, Case, Hit
from tests.fuzz.generate import Generator, Refusal
from tests.fuzz.programs import Program
from tests.fuzz.shrink import shrink

LIMIT = 120  # seconds of a program
SHRINKING = 25.0  # seconds at most


GROUP = 8  # programs that are compiled as one


@dataclass(frozen=True)
class Found:
    """A hit, the program that has it, and the seed of what it was found in."""

    seed: str
    program: Program
    hit: Hit


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


class Examiner:
    """Makes the programs of seeds and checks them. What is to be compiled waits until there are `GROUP` of it."""

    def __init__(self, only: Sequence[str] = (), share: float = 1.0):
        self.only, self.share, self.compared = only, share, 0
        self.waiting: dict[tuple[str, bool], list[tuple[str, Case]]] = {}

    def examine(self, seed: str) -> list[Found]:
        """What is found in the program of a seed, and in those that waited."""
        generator = Generator(seed)
        program = generator.program()
        found: list[Found] = []
        for refusal in generator.refusals[:2] if not self.only or "refused" in self.only else ():
            hit = refused(refusal)
            if hit is not None:
                found.append(Found(seed, refusal.program, hit))
        case = Case(program)
        names = [name for name in self.only if name in checks.CHECKS] if self.only else checks.turns(seed, self.share)
        now = [name for name in names if name not in checks.TOGETHER]
        hits = checks.run(program, now, case)
        found.extend(Found(seed, program, hit) for hit in hits)
        self.compared += case.compared
        if not any(hit.check in ("trace", "reference") for hit in hits) and "spread" in case.__dict__:
            for name in names:
                if name in checks.TOGETHER:
                    found.extend(self.wait(name, seed, case))
        return found

    def wait(self, name: str, seed: str, case: Case) -> list[Found]:
        group = self.waiting.setdefault((name, case.program.x64), [])
        group.append((seed, case))
        return self.compile(name, case.program.x64) if len(group) >= GROUP else []

    def compile(self, name: str, x64: bool) -> list[Found]:
        """Checks a group: each program alone that differs when all are compiled as one."""
        group = self.waiting.pop((name, x64))
        cases = [case for _, case in group]
        before = sum(case.compared for case in cases)
        found: list[Found] = []
        for i in checks.suspects(name, cases):
            seed, case = group[i]
            found.extend(Found(seed, case.program, hit) for hit in checks.run(case.program, [name]))
        self.compared += sum(case.compared for case in cases) - before
        return found

    def rest(self) -> list[Found]:
        return [found for name, x64 in list(self.waiting) for found in self.compile(name, x64)]


def first_of_each(found: Sequence[Found]) -> list[Found]:
    return list({(each.seed, each.hit.check.split(" ")[0], each.hit.kind): each for each in reversed(found)}.values())


class Work:
    """Programs number start, start + step ... until the time is over."""

    def __init__(self, fewer: bool, share: float):
        self.share = share
        self.fewer, self.seen, self.shrinking, self.began = fewer, Counter[Any](), 0.0, time.monotonic()

    def run(self, seed: str, numbers: range, until: float, only: Sequence[str]) -> None:
        signal.signal(signal.SIGALRM, _too_slow)
        examiner = Examiner(only, self.share)
        for number in numbers:
            if time.time() > until:
                break
            tell(at=number)
            before = examiner.compared
            try:
                signal.alarm(LIMIT)
                found = examiner.examine(f"{seed}-{number}")
                signal.alarm(0)
            except TooSlow:
                tell(slow=number)
                continue
            tell(done=number, compared=examiner.compared - before)
            self.report(found)
        self.report(examiner.rest())
        tell(finished=True)

    def report(self, found: Sequence[Found]) -> None:
        for each in first_of_each(found):
            hit = each.hit
            key = (hit.check, hit.kind)
            self.seen[key] += 1
            if hit.kind not in ("value", "type") and self.seen[key] > 3:
                tell(again=key)
                continue
            busy = self.shrinking > 60 and self.shrinking > 0.4 * (time.monotonic() - self.began)
            before = time.monotonic()
            small = each.program if self.fewer or busy else shrunk(each.program, hit)
            self.shrinking += time.monotonic() - before
            tell(hit=described(each.seed, small, hit, each.program))


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
