"""Differences that are meant, each with its reason: where they are all that is found nothing is reported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.checks import Hit
from tests.fuzz.programs import Program


@dataclass(frozen=True)
class Known:
    """A hit of these checks whose shrunk program has the pattern in its text, and whose own text has `message`."""

    reason: str
    checks: tuple[str, ...]
    pattern: str
    message: str = ""

    def explains(self, program: Program, hit: Hit) -> bool:
        if not any(hit.check.startswith(check) for check in self.checks):
            return False
        return bool(
            re.search(self.pattern, program.source()) and re.search(self.message, f"{hit.kind}\n{hit.text}", re.M)
        )


PEER = ("peer", "peer_types", "peer_gradients")
KNOWN: Sequence[Known] = (
    Known(
        "Of 0.0 and -0.0 either may be the greater one (ARCHITECTURE.md): its reciprocal and sign bit differ.",
        ("eager", "jit", "peer", "passes", "mapped", "rows"), r"-0\.0", "-?inf|True|False",
    ),
    Known(
        "clamp has derivative 0 where its operand is one of its limits; a difference sees the limits move, too.",
        ("derivatives",), r"lax\.clamp", "^difference$",
    ),
    Known(
        "The sign bit of a nan that was computed is left open, by IEEE 754 as well.",
        ("eager", "jit", "peer", "mapped", "rows"), r"signbit|copysign", "True|False|instead of",
    ),
    Known(
        "Forward mode of a function with a custom_vjp rule asks for a bwd that is linear; the peer has none.",
        ("derivatives",), "custom_vjp", "^UnsupportedRule: .*forward mode of a function with a custom_vjp rule",
    ),
    Known(
        "A computed index out of bounds reads the last element, whose cotangent is dropped; the peer does the same.",
        ("derivatives",), r"\w\[(np\.array\(\[|jnp\.array\(\[|[avn]\d)|jnp\.take\(", "^reverse$",
    ),
    Known(
        "An index that is known to be out of bounds is an IndexError (docs/errors.md).",
        ("refused",), "", "^IndexError: index .* is out of bounds for axis",
    ),
    Known(
        "An integer to a negative power is no integer: NumPy refuses it, the peer gives what repeated squaring leaves.",
        ("peer",), r"power|\*\*", r"of u?int\d",
    ),
    Known(
        "A comparison of weakly typed numbers gives a strong bool: a bool takes part in no promotion that asks for it.",
        ("peer_types",), "", r"^bool(\[.*\]), and bool\1 weak by the peer$",
    ),
)  # fmt: skip


def reason(program: Program, hit: Hit) -> str | None:
    """Why the hit is none, where it is meant."""
    return next((each.reason for each in KNOWN if each.explains(program, hit)), None)
