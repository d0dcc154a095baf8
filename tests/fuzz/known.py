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
        "Of 0.0 and -0.0 either may be the greater one (docs/design/eager-operations.md): its sign bit may differ.",
        ("eager", "jit", "peer", "passes", "mapped", "rows"), r"-0\.0", "-?inf|True|False",
    ),
    Known(
        "Of 0.0 and -0.0 either may be the greater one: the angle of the zero that min or max gives.",
        ("eager", "jit", "peer", "passes", "mapped", "rows"), r"(?s)^(?=.*a(rc)?tan2).*(min|max|clip|clamp|sort)",
        r"^-?(3\.14|1\.57)\d* instead of -?(3\.14|1\.57)",
    ),
    Known(
        "Of 0.0 and -0.0 either may be the greater one: which of them top_k finds first.",
        ("jit", "peer", "mapped"), "top_k", r"^\d+(\.0)? instead of \d+(\.0)? at",
    ),
    Known(
        "Outside of its domain a function has no derivative, and nan has none; the peer's formulas give numbers.",
        PEER, r"arccosh|acosh|arctanh|atanh|arcsin|asin|arccos|acos|log|bessel|i0|i1|\*\* 0\.5|sqrt", r"instead of nan",
    ),
    Known(
        "The peer's derivatives of quotients and of logaddexp overflow, or underflow, on the way.",
        PEER, r"/|divide|logaddexp|reciprocal", r"^-?(inf|nan) instead of",
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
        ("derivatives", "reference"), "custom_vjp", "^UnsupportedRule: .*forward mode of a function with a custom_vjp",
    ),
    Known(
        "A while loop that is transposed as it stands, not linearized, has no transpose rule, nor has it in the peer.",
        ("derivatives", "gradients", "peer_gradients", "refused"),
        r"(?s)^(?=.*linear_transpose).*(while_loop|fori_loop)",
        "^UnsupportedRule: Transpose rule .* for 'while' not implemented",
    ),
    Known(
        "A computed index out of bounds reads the last element, whose cotangent is dropped; the peer does the same.",
        ("derivatives",), r"\w\[(np\.array\(\[|jnp\.array\(\[|[avn]\d)|jnp\.take\(", "^reverse$",
    ),
    Known(
        "An index that is known to be out of bounds is an IndexError (docs/errors.md).",
        ("refused",), "", "^IndexError: index .* out of bounds for axis",
    ),
    Known(
        "An integer to a negative power is no integer: NumPy refuses it, the peer gives what repeated squaring leaves.",
        ("peer",), r"power|\*\*", r"of u?int\d",
    ),
    Known(
        "hypot of weakly typed operands is weakly typed, by the peer if both are scalars.",
        ("peer_types",), "hypot", r"^float\d+(\[.*\]) weak, and float\d+\1 by the peer$",
    ),
    Known(
        "The derivative of x^y by x at 0^0 is 0, and nan by the peer (docs/differences.md).",
        PEER, r"pow|\*\*", r"^nan instead of -?0\.0",
    ),
    Known(
        "The derivative of the deviation of one element is 0, and nan by the peer (docs/differences.md).",
        PEER, r"jnp\.(nan)?std", r"^nan instead of",
    ),
    Known(
        "An infinite or nan cotangent of an element that was not chosen is dropped; the peer multiplies it by 0.",
        PEER, r"max|min|relu|clip|clamp|where|select|sort|top_k|median", r"^nan instead of -?0\.0",
    ),
    Known(
        "Likewise an infinite or nan tangent, in a program that takes the derivative itself.",
        PEER, r"(?s)^(?=.*lib\.(vjp|jvp|linearize)).*(max|min)(?=.*np\.(inf|nan))", r"^nan instead of",
    ),
    Known(
        "The peer's derivative of ldexp at 0 is 1, whatever the exponent (docs/differences.md).",
        ("peer_gradients",), r"ldexp", r"^1\.0 instead of",
    ),
    Known(
        "A maximum that is nan has no derivative; the peer, compiled, gives 0.",
        ("peer_gradients",), r"(max|min)\(", r"^-?0\.0 instead of nan",
    ),
    Known(
        "Of equal elements, and of nans, of a cumulative maximum each has a share, by the order of the steps.",
        ("peer_gradients",), r"cum(max|min)", "instead of",
    ),
    Known(
        "Likewise where the program itself takes the derivative of a cumulative maximum.",
        ("peer",), r"(?s)^(?=.*lib\.(grad|value_and_grad|vjp|jvp|linearize|jac|hess)).*cum(max|min)", "instead of",
    ),
    Known(
        "A difference of equal terms is 0, and what rounding leaves of them by the peer.",
        PEER, r"(?s)lib\.(grad|value_and_grad|vjp|jvp|linearize|jac|hess)",
        r"^-?\d(\.\d+)?e-(1[1-9]|[2-9]\d|\d{3}) instead of -?0\.0 at .* of float64",
    ),
    Known(
        "The peer's derivative of sinc is infinite, or nan, of tiny numbers (docs/differences.md).",
        PEER, r"sinc", r"^-?(inf|nan) instead of",
    ),
    Known(
        "Of limits of clamp that are crossed the upper one is the result, whose derivative is 0 by the peer.",
        ("peer_gradients",), r"lax\.clamp", r"^-?0\.0 instead of",
    ),
    Known(
        "The peer's derivatives of tanh and the logistic function are products of terms that may be inf - inf.",
        PEER, r"tanh|sigmoid|logistic|silu", r"^nan instead of -?inf",
    ),
    Known(
        "XLA multiplies the factors of terms of a sum in another order, which overflows on the way (also in the peer).",
        ("gradients", "jit", "mapped", "peer"), r"(?s)^(?=.*1e-?30).*(sum|grad|/|divide)", r"^nan instead of -?0\.0",
    ),
    Known(
        "XLA takes (a / b) / (c / d) for (a d) / (b c), whose products overflow sooner (also in the peer).",
        ("gradients", "jit", "mapped", "passes", "peer"), r"(?s)^(?=.*float16).*(/|div|reciprocal|soft_sign|\*\* -1)",
        r"^(nan|-?inf|-?0\.0) instead of -?\d",
    ),
    Known(
        "XLA takes the square root of a square for the absolute value, which neither overflows nor underflows.",
        ("mapped", "jit", "peer"), r"norm", r"^[\d.e+-]+ instead of (inf|0\.0)",
    ),
    Known(
        "The peer's I0 of inf is inf * 0 (docs/differences.md), and so is the derivative of I0 here.",
        (*PEER, "mapped", "jit", "gradients"), r"\bi0\b|i1", r"^nan instead of inf",
    ),
    Known(
        "I1 of 0, the derivative of I0, is 0, and what rounding leaves of its series by the reference.",
        ("gradients", "mapped", "rows", "jit", "eager", "peer"), r"\bi0\b|i1",
        r"^-?0\.0 instead of -?\d(\.\d+)?e-1[5-9]",
    ),
    Known(
        "A sum of 16-bit floats whose terms cancel may be 0 or not, by the order in which they are added.",
        ("peer", "jit", "mapped"), r"(?s)^(?=.*(float16|bfloat16)).*(cumsum|sum)", r"^-?(inf|nan) instead of",
    ),
    Known(
        "Subnormal numbers are zeros in compiled programs on CPU (docs/differences.md).",
        ("eager", "jit", "mapped", "gradients", "peer", "passes"), r"nextafter|spacing",
        r"^(nan instead of -?inf|inf instead of \d+\.\d+|-?0(\.0)? instead of -?1(\.0)?|\d\S*e-4[0-5] instead of \S+) ",
    ),
    Known(
        "The peer's top_k takes a nan with a sign bit for the least of all numbers.",
        PEER, "top_k|approx_max", "instead of nan",
    ),
    Known(
        "A function of steps that are finer than those of the difference: its derivative is 0 between them.",
        ("derivatives",), r"//|floor|ceil|round|rint|trunc|fix|divmod|modf", r"^jvp gives -?0\.0, and a difference",
    ),
    Known(
        "Bounds of fori_loop that are known are Python's integers, as in the peer; traced ones have their dtype.",
        ("eager", "jit", "mapped", "rows", "reference"), r"fori_loop\(.*int\d", "^CarryMismatch: fori_loop",
    ),
    Known(
        "XLA takes a product of powers for the power of a product, which loses a nan (also in the peer).",
        ("peer", "jit", "mapped"), r"(?s)^(?=.*(\*\*|power)).*prod", r"^-?0\.0 instead of nan",
    ),
    Known(
        "The indices that top_k gives are strong, whatever its operand is.",
        ("peer_types",), "top_k", "weak by the peer",
    ),
    Known(
        "Parts of quotients of complex numbers that are infinite may be zeros or nan.",
        ("jit", "mapped", "peer", "rows"), r"(?s)^(?=.*complex)(?=.*inf).*(reciprocal|/|div)", "nan",
    ),
    Known(
        "No number is the quotient of an integer by zero: -1 here, and rounded down to -2 by the peer.",
        ("peer",), "//|floor_divide|divmod", "^-2 instead of -1",
    ),
    Known(
        "A compiled program keeps more digits of 16-bit floats on the way to a function of steps.",
        ("jit", "mapped", "passes", "peer"), r"(?s)^(?=.*float16).*(floor|ceil|round|rint|trunc|fix|//)",
        r"^-?\d+\.0 instead of -?\d+\.0 at .* of b?float16",
    ),
    Known(
        "The sign of a root of a negative number is that of a zero, which XLA loses in a constant.",
        ("peer", "eager", "jit", "mapped", "rows"), r"(?s)^(?=.*complex).*sqrt", r"^-?\d\S*j instead of -?\d\S*j",
    ),
    Known(
        "The peer's exponential of a constant nan is what was in memory (docs/differences.md).",
        PEER, r"(?s)^(?=.*(exp|cosh|sigmoid|logistic|softplus|softmax|silu|gelu)).*(nan|take|mode=)", r"instead of nan",
    ),
    Known("The spacing of an infinite number is nan.", ("peer",), "spacing", "^inf instead of nan"),
    Known(
        "A sum of integers that overflows wraps; the peer adds floats, and limits what it converts back.",
        ("peer",), r"\.at\[", r"^-?\d+ instead of -?\d+ at .* of u?int",
    ),
)  # fmt: skip


def reason(program: Program, hit: Hit) -> str | None:
    """Why the hit is none, where it is meant."""
    return next((each.reason for each in KNOWN if each.explains(program, hit)), None)
