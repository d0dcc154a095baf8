"""The operations that random programs are made of: a table of expressions, with what each takes.

A row is an expression and a word for each operand: which kinds of dtype it takes (f float, c complex, i signed, u
unsigned, b bool). `Row.shapes` says what the shapes have to be: "broadcast" (any that broadcast; Python scalars too),
"same" (of one type: lax is strict) or "one" (an operand of at least `rank` axes, and the number of a row in {axis}).
What needs more than that is written as a function in ROWS_BY_FUNCTION: it takes the generator and an operand's type and
gives the expression, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.fuzz.programs import Type

if TYPE_CHECKING:
    from tests.fuzz.generate import Generator


@dataclass(frozen=True)
class Row:
    text: str
    kinds: tuple[str, ...]
    shapes: str = "broadcast"
    rank: int = 0
    largest: int = 1 << 30  # number of elements

    @property
    def name(self) -> str:
        return self.text.split("(")[0]


def rows(kinds: str, names: str, shapes: str = "broadcast", prefix: str = "", **more: int) -> list[Row]:
    """Functions that take operands of the given kinds, such as `"fc f"`, alone."""
    words = tuple(kinds.split())
    operands = ", ".join(f"{{{i}}}" for i in range(len(words)))
    return [Row(f"{prefix}{name}({operands})", words, shapes, **more) for name in names.split()]


def expressions(kinds: str, texts: list[str], shapes: str = "broadcast", **more: int) -> list[Row]:
    return [Row(text, tuple(kinds.split()), shapes, **more) for text in texts]


ANY = "fciub"
ROWS = dict(rank=1, largest=64)

ELEMENTWISE = [
    *rows("fc", "sin cos tan tanh sinh cosh exp expm1 log log1p sqrt arctan", prefix="jnp."),
    *rows("fc", "arcsinh exp2 reciprocal sinc", prefix="jnp."),
    *rows("f", "arcsin arccos arctanh arccosh cbrt log2 log10", prefix="jnp."),
    *rows("f", "floor ceil rint trunc fabs spacing deg2rad", prefix="jnp."),
    *rows("fciu", "square negative positive abs sign", prefix="jnp."),
    *rows("fiub", "nan_to_num isnan isfinite isinf isposinf signbit", prefix="jnp."),
    *rows("fc", "real imag conj angle", prefix="jnp."),
    *rows("iub", "invert bitwise_count", prefix="jnp."),
    *rows("fciub", "logical_not", prefix="jnp."),
    *rows("fciu fciu", "add subtract multiply true_divide", prefix="jnp."),
    *rows("f f", "arctan2 hypot logaddexp logaddexp2 nextafter copysign heaviside fmod remainder", prefix="jnp."),
    *rows("fiu fiu", "maximum minimum fmax fmin floor_divide mod power float_power", prefix="jnp."),
    *rows("fiub fiub", "greater greater_equal less less_equal equal not_equal", prefix="jnp."),
    *rows("fciub fciub", "equal not_equal logical_and logical_or logical_xor", prefix="jnp."),
    *rows("iub iub", "bitwise_and bitwise_or bitwise_xor", prefix="jnp."),
    *rows("iu iu", "gcd lcm left_shift right_shift", prefix="jnp."),
    *rows("f i", "ldexp", prefix="jnp."),
    *rows("b fciub fciub", "where", prefix="jnp."),
    *rows("fiu fiu fiu", "clip", prefix="jnp."),
    *expressions("fciu fciu", ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}"]),
    *expressions("fiu fiu", ["{0} // {1}", "{0} % {1}", "{0} < {1}", "{0} >= {1}", "{0} ** {1}"]),
    *expressions("fciu", ["-{0}", "abs({0})", "{0} ** 2", "{0} * {0}", "2 * {0}", "{0} + 1", "1.5 - {0}", "0.5 * {0}"]),
    *expressions("f", ["{0} ** 3", "{0} ** -1", "{0} ** 0.5", "1.0 / {0}", "jnp.round({0}, 2)", "{0} * 0.0",
                       "jnp.clip({0}, -1, 1)", "jnp.maximum({0}, 0)", "jnp.where({0} > 0, {0}, 0.0)",
                       "jnp.frexp({0})[0]", "jnp.modf({0})[0]", "jnp.isclose({0}, 0.5)"]),
    *expressions("iub", ["~{0}", "{0} & 1", "{0} | {0}", "{0} ^ 1"]),
]  # fmt: skip

NN = [
    *rows("f", "relu relu6 softplus sigmoid silu gelu elu celu selu leaky_relu log_sigmoid soft_sign hard_tanh "
          "hard_sigmoid squareplus mish", prefix="lib.nn."),
    *rows("f", "softmax log_softmax standardize", "one", prefix="lib.nn.", rank=1),
    *rows("f", "logsumexp", "one", prefix="lib.nn."),
    *rows("f", "logistic rsqrt", prefix="lax."),
    *rows("f", "erf erfc lgamma digamma bessel_i0e bessel_i1e", prefix="lax.", largest=64),  # NumPy has none: slow
    *rows("f", "i0", prefix="jnp.", largest=64),
]  # fmt: skip

STRICT = [
    *rows("fciu fciu", "add sub mul div", "same", prefix="lax."),
    *rows("fiu fiu", "max min rem", "same", prefix="lax."),
    *rows("f f", "atan2 pow nextafter", "same", prefix="lax."),
    *rows("fiub fiub", "lt le gt ge eq ne", "same", prefix="lax."),
    *rows("b fciub fciub", "select", "same", prefix="lax."),
    *rows("f f f", "clamp", "same", prefix="lax."),
    *rows("fciu", "neg sign abs square stop_gradient", prefix="lax."),
    *rows("fc", "tan asin acos atan log expm1 cbrt", prefix="lax."),
    *rows("f", "floor ceil round is_finite", prefix="lax."),
    *expressions("fc", ["lax.integer_pow({0}, 3)", "lax.integer_pow({0}, -2)"]),
    *expressions("f f", ["lax.complex({0}, {1})"], "same"),
    *expressions("f", ["lax.reduce_precision({0}, 8, 7)"]),
    *rows("iu", "population_count clz", prefix="lax."),
]  # fmt: skip

ALONG = "jnp.{name}({{0}}, axis={{axis}})"
REDUCTIONS = [
    *expressions("fciu", ["jnp.sum({0}, axis={axis})", "jnp.mean({0}, axis={axis})", "jnp.prod({0}, axis={axis})",
                          "jnp.cumsum({0}, axis={axis})", "jnp.flip({0}, axis={axis})",
                          "jnp.sum({0}, axis={axis}, keepdims=True)",
                          "jnp.count_nonzero({0}, axis={axis})"], "one", rank=1),
    *expressions("f", ["jnp.cumprod({0}, axis={axis})", "jnp.std({0}, axis={axis})", "jnp.var({0}, axis={axis})",
                       "jnp.nansum({0}, axis={axis})", "jnp.nanmean({0}, axis={axis})",
                       "lib.nn.logsumexp({0}, axis={axis})", "jnp.nancumsum({0}, axis={axis})",
                       "lib.nn.softmax({0}, axis={axis})", "lax.cumlogsumexp({0}, axis={positive})",
                       "jnp.linalg.norm({0}, axis={axis})"], "one", rank=1),
    *expressions("fiu", ["lax.cummax({0}, axis={positive})", "lax.cummin({0}, axis={positive}, reverse=True)",
                         "lax.cumsum({0}, axis={positive}, reverse=True)",
                         "jnp.sort({0}, axis={axis})", "jnp.argsort({0}, axis={axis})"], "one", rank=1),
    *expressions("fiu", ["jnp.max({0}, axis={axis})", "jnp.min({0}, axis={axis})", "jnp.argmax({0}, axis={axis})",
                         "jnp.argmin({0}, axis={axis})", "jnp.ptp({0}, axis={axis})", "lax.top_k({0}, 2)[0]",
                         "lax.top_k({0}, 1)[1]", "jnp.nanmax({0}, axis={axis})", "jnp.median({0}, axis={axis})"],
                 "one", rank=1),
    *expressions("ciufb", ["jnp.any({0}, axis={axis})", "jnp.all({0}, axis={axis})"], "one", rank=1),
    *expressions("fciu", ["jnp.sum({0})", "jnp.mean({0})", "{0}.sum()", "jnp.sum({0} * {0})"], "one"),
    *expressions("f", ["jnp.std({0})", "jnp.var({0})", "jnp.max({0})", "jnp.min({0})", "lib.nn.logsumexp({0})",
                       "jnp.linalg.norm({0})"], "one"),
]  # fmt: skip

SHAPES = [
    *expressions(ANY, ["{0}.T", "jnp.ravel({0})", "{0}[None]", "{0}[..., None]", "jnp.atleast_1d({0})",
                       "jnp.zeros_like({0})", "jnp.ones_like({0})", "jnp.array({0})", "jnp.stack([{0}, {0}])",
                       "lib.lax.optimization_barrier({0})"], "one"),
    *expressions(ANY, ["jnp.roll({0}, 1, axis={axis})", "jnp.roll({0}, -1)", "jnp.concatenate([{0}, {0}], axis={axis})",
                       "jnp.expand_dims({0}, {axis})", "jnp.repeat({0}, 2, axis={axis})", "jnp.tile({0}, 2)",
                       "jnp.moveaxis({0}, 0, -1)", "jnp.pad({0}, 1)[{slice}]", "lax.rev({0}, ({positive},))",
                       "jnp.pad({0}, (1, 0), mode='edge')", "{0}[{slice}]", "{0}[::-1]", "{0}[..., 1:]", "{0}[:0]",
                       "jnp.broadcast_to({0}[None], (2, *{0}.shape))"], "one", **ROWS),
    *expressions("fciu", ["jnp.diff({0}, axis={axis})", "jnp.append({0}, 1)", "jnp.diag({0}.ravel()[:3])",
                          "jnp.trace(jnp.outer({0}, {0}))"], "one", **ROWS),
    *expressions("fciu", ["jnp.tril({0})", "jnp.triu({0}, 1)", "jnp.swapaxes({0}, 0, 1)", "{0} @ {0}.T",
                          "jnp.rot90({0})"], "one", rank=2, largest=64),
]  # fmt: skip

PRODUCTS = [
    *expressions("fc fc", ["jnp.vdot({0}, {1})", "jnp.tensordot({0}, {1}, axes={0}.ndim)", "jnp.inner({0}, {1})"],
                 "same",
                 largest=64),
    *expressions("fciu fciu", ["jnp.outer({0}, {1})", "jnp.kron({0}, {1})"], "broadcast", largest=64),
    *expressions("f f", ["jnp.einsum('...i,...i->...', {0}, {1})", "jnp.dot({0}, {1}.T)", "{0} @ {1}.T",
                         "jnp.convolve({0}.ravel(), {1}.ravel(), mode='same')"], "same", **ROWS),
    *expressions("f", ["jnp.linalg.det({0} @ {0}.T)", "jnp.einsum('ij,kj->ik', {0}, {0})",
                       "jnp.einsum('ij->j', {0})"], "one", rank=2, largest=64),
]  # fmt: skip

INDEXING = [
    *expressions("fciub i", ["{0}[{1}]", "jnp.take({0}, {1}, axis={axis})", "jnp.take({0}, {1}, mode='wrap')",
                             "{0}.at[{1}].get(mode='fill', fill_value=0)"], "index", **ROWS),
    *expressions("fciu i", ["{0}.at[{1}].set(1)", "{0}.at[{1}].add(2)", "{0}.at[{1}].multiply(2)",
                            "{0}.at[{1}].add({0}[{1}])", "{0}.at[{1}].set({0}[0])",
                            "lib.ops.segment_sum({0}, jnp.broadcast_to({1}, {0}.shape[:1]), 3)"], "index", **ROWS),
    *expressions("f i", ["{0}.at[{1}].max(0.5)", "{0}.at[{1}].min({0}[0])", "{0}.at[{1}].power(2)",
                         "{0}.at[{1}].divide(2)",
                         "{0}.at[{1}].apply(jnp.sin)"], "index", **ROWS),
    *expressions("fciub i", ["lax.dynamic_index_in_dim({0}, jnp.sum({1}), {positive})",
                             "lax.dynamic_slice_in_dim({0}, jnp.sum({1}), 2, {positive})",
                             "lax.dynamic_update_index_in_dim({0}, {0}[0], jnp.sum({1}), 0)"], "index", **ROWS),
    *expressions("fciub", ["{0}[0]", "{0}[-1]", "{0}[np.array([1, 0, 1])]",
                           "{0}[np.array([True, False, True])[:{0}.shape[0]]]",
                           "{0}.at[0].set(0)", "{0}.at[::2].set({0}[::2])", "{0}.at[-1].set({0}[0])",
                           "{0}.at[np.array([0, 0])].set(1)",
                           "jnp.take_along_axis({0}, jnp.argsort({0}.real, axis=0), axis=0)"],
                 "one", **ROWS),
    *expressions("fciu", ["{0}.at[0].add(1.5)", "{0}.at[np.array([0, 1, 0])].add({0}[0])", "{0}.at[..., 0].multiply(3)",
                          "{0}.at[1:].add({0}[:-1])", "{0}.at[{0}.real > 0].set(0)",
                          "jnp.where({0}.real > 0, {0}, 0)[::-1]"],
                 "one", **ROWS),
    *expressions("fiu", ["jnp.searchsorted(jnp.sort({0}.ravel()), {0})",
                         "jnp.bincount(jnp.abs({0}.ravel()).astype('int32') % 4, length=4)",
                         "jnp.unique({0}, size=3, fill_value=0)", "jnp.nonzero({0}, size=2, fill_value=0)[0]",
                         "jnp.interp({0}, jnp.arange(3.0), jnp.array([0.5, -1.0, 2.0]))"], "one", **ROWS),
]  # fmt: skip

DTYPES = ["float32", "bfloat16", "float16", "int32", "int8", "uint8", "bool", "complex64"]


def converted(g: Generator, of: Type) -> str | None:
    to = g.random.choice(g.palette)
    if of.kind == "c" and not to.startswith("complex"):
        return None
    return f"{{0}}.astype('{to}')" if g.random.random() < 0.7 else f"lax.convert_element_type({{0}}, '{to}')"


def reshaped(g: Generator, of: Type) -> str | None:
    fitting = [shape for shape in g.shapes if Type(shape, "bool").size == of.size and shape != of.shape]
    return f"jnp.reshape({{0}}, {g.random.choice(fitting)})" if fitting else None


def broadcasted(g: Generator, of: Type) -> str | None:
    fitting = [s for s in g.shapes if len(s) > len(of.shape) and s[len(s) - len(of.shape) :] == of.shape]
    if not fitting:
        return None
    shape = g.random.choice(fitting)
    if g.random.random() < 0.5:
        return f"jnp.broadcast_to({{0}}, {shape})"
    return f"lax.broadcast_in_dim({{0}}, {shape}, {tuple(range(len(shape) - len(of.shape), len(shape)))})"


def window(g: Generator, of: Type) -> str | None:
    if of.kind != "f" or not of.shape or of.size > 64 or 0 in of.shape:
        return None
    sizes, ones = tuple(min(2, n) for n in of.shape), (1,) * len(of.shape)
    start, reducer = g.random.choice([("0.", "lax.add"), ("-jnp.inf", "lax.max"), ("jnp.inf", "lax.min")])
    padding = g.random.choice(["'SAME'", "'VALID'"])
    return f"lax.reduce_window({{0}}, jnp.array({start}, {{0}}.dtype), {reducer}, {sizes}, {ones}, {padding})"


BY_FUNCTION: list[Callable[[Generator, Type], str | None]] = [converted, converted, reshaped, broadcasted, window]

FAMILIES = {
    "elementwise": (ELEMENTWISE, 30),
    "nn": (NN, 8),
    "strict": (STRICT, 10),
    "reductions": (REDUCTIONS, 10),
    "shapes": (SHAPES, 7),
    "products": (PRODUCTS, 4),
    "indexing": (INDEXING, 10),
}
