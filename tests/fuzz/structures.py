"""Statements that call functions back: control flow, derivatives, maps, functions with rules of their own.

Each proposes one statement: it picks operands, has the generator make the body, and shapes what the body returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.fuzz.programs import Function, Type

if TYPE_CHECKING:
    from tests.fuzz.generate import Block, Generator

SMALL = 400_000


def propose(g: Generator, block: Block, depth: int) -> None:
    """Adds a statement with functions, where operands for it are found."""
    kind = g.random.choices(list(STRUCTURES), list(STRUCTURES.values()))[0]
    kind(g, block, depth)


# -- Parts


def strong(g: Generator, block: Block, kinds: str = "fciub", size: int = SMALL, rank: int = 0) -> str | None:
    """A value without a weak type."""
    return g.pick(block, kinds, lambda of: not of.weak and of.size <= size and len(of.shape) >= rank)


def several(g: Generator, block: Block, kinds: str = "fciub", size: int = SMALL) -> list[str] | None:
    """One or two values without weak types; one twice, at times."""
    names = [strong(g, block, kinds, size) for _ in range(g.random.choice([1, 1, 2]))]
    return None if None in names else names  # type: ignore[return-value]


def types_of(g: Generator, names: Sequence[str]) -> list[Type]:
    return [g.types[name] for name in names]


def function(g: Generator, inner: Block, parameters: int, results: Sequence[str], **form: str) -> Function:
    g.names += 1
    return Function(f"f{g.names}", tuple(inner.own[:parameters]), tuple(inner.statements), tuple(results), **form)


def ending_in(g: Generator, inner: Block, types: Sequence[Type], bounded: bool = True) -> list[str] | None:
    """Results of these types, made from what the block has of its own."""
    names = []
    for of in types:
        source = g.random.choice(inner.own[-4:])
        name = g.fitted(inner, source, of, bounded and g.random.random() < 0.7)
        if name is None:
            return None
        names.append(name)
    return names


def smooth_results(g: Generator, inner: Block, dtype: str) -> list[str] | None:
    """One or two results of inexact dtype, made where there are none."""
    names = [x for x in inner.own[-4:] if g.types[x].kind == "f" and not g.types[x].weak]
    if not names:
        made = g.fitted(inner, inner.own[-1], Type((), dtype))
        return None if made is None else [made]
    return list(dict.fromkeys(g.random.sample(names, min(len(names), g.random.choice([1, 1, 2])))))


def scalar(g: Generator, block: Block) -> str | None:
    """A predicate."""
    name = g.pick(block, "fiub")
    return name and g.fitted(block, name, Type((), "bool"))


def wrapped(g: Generator, text: str = "{f0}") -> str:
    """The function in none, one or two more transformations that keep what it gives."""
    for _ in range(2):
        if g.random.random() < 0.25:
            text = (
                g.random.choice(["lib.jit(%s)", "lib.checkpoint(%s)", "lib.remat(%s)", "lib.named_call(%s)"][:3]) % text
            )
    return text


def numbered(start: int, count: int) -> str:
    return ", ".join(f"{{{i}}}" for i in range(start, start + count))


def tupled(count: int) -> str:
    return f"({numbered(0, count)},)"


# -- Control flow


def cond(g: Generator, block: Block, depth: int) -> None:
    names, predicate = several(g, block), scalar(g, block)
    if names is None or predicate is None:
        return
    first = g.inner(types_of(g, names), block, depth)
    results = [x for x in first.own[-2:] if not g.types[x].weak] or first.own[:1]
    second = g.inner(types_of(g, names), block, depth)
    others = ending_in(g, second, types_of(g, results), False)
    if others is None:
        return
    n = len(results)
    functions = [
        function(g, inner, len(names), outs, closing=tupled(n)) for inner, outs in ((first, results), (second, others))
    ]
    g.add(
        block,
        f"lax.cond({{0}}, {{f0}}, {{f1}}, {numbered(1, len(names))})",
        [predicate, *names],
        functions,
        tupled(n),
        n,
    )


def switch(g: Generator, block: Block, depth: int) -> None:
    names, index = several(g, block), strong(g, block, "i")
    index = index and g.fitted(block, index, Type((), "int32"))
    if names is None or not index:
        return
    blocks = [g.inner(types_of(g, names), block, depth, 2) for _ in range(3)]
    types = [g.types[x] for x in blocks[0].own[-1:]]
    if types[0].weak:
        return
    ends = [ending_in(g, inner, types, False) for inner in blocks]
    if any(end is None for end in ends):
        return
    functions = [function(g, inner, len(names), end or ()) for inner, end in zip(blocks, ends)]
    text = f"lax.switch({{0}}, [{{f0}}, {{f1}}, {{f2}}], {numbered(1, len(names))})"
    g.add(block, text, [index, *names], functions)


def scan(g: Generator, block: Block, depth: int) -> None:
    carry, rows = several(g, block), strong(g, block, rank=1)
    if carry is None:
        return
    loops = rows is not None and g.random.random() < 0.85
    row = [Type(g.types[rows].shape[1:], g.types[rows].dtype)] if loops else []
    inner = g.inner([*types_of(g, carry), *row], block, depth)
    outs = ending_in(g, inner, types_of(g, carry))
    if outs is None:
        return
    n = len(carry)
    stacked = inner.own[-1]
    body = function(
        g, inner, n + len(row), [*outs, stacked],
        signature=f"carry, {{{n}}}" if loops else "carry, _", opening=f"{tupled(n)} = carry",
        closing=f"{tupled(n)}, {{{n}}}",
    )  # fmt: skip
    options = g.random.choice(["", "", ", reverse=True", ", unroll=2"])
    if loops:
        text, operands = f"lax.scan({{f0}}, {tupled(n)}, {{{n}}}{options})", [*carry, rows]
    else:
        text, operands = f"lax.scan({{f0}}, {tupled(n)}, None, length={g.random.choice([1, 3, 4, 0])}{options})", carry
    g.add(block, text, operands, [body], f"{tupled(n)}, {{{n}}}", n + 1)  # type: ignore[arg-type]


def while_loop(g: Generator, block: Block, depth: int) -> None:
    carry = several(g, block)
    if carry is None:
        return
    n = len(carry)
    types = [Type((), "int32"), *types_of(g, carry)]
    test, inner = g.inner(types, block, 0, 1), g.inner(types, block, depth)
    outs, stop = ending_in(g, inner, types_of(g, carry)), ending_in(g, test, [Type((), "bool")], False)
    if outs is None or stop is None:
        return
    limit = g.random.choice(["3", "5", "0", "1"])
    closing = f"({{1}} < {limit}) & {{0}}" if g.random.random() < 0.3 else f"{{1}} < {limit}"
    form = dict(signature="carry", opening=f"{tupled(n + 1)} = carry")
    tests = function(g, test, n + 1, [*stop, test.own[0]], closing=closing, **form)
    body = function(g, inner, n + 1, [inner.own[0], *outs], closing=f"({{0}} + 1, {numbered(1, n)})", **form)
    text = f"lax.while_loop({{f0}}, {{f1}}, (jnp.int32(0), {numbered(0, n)}))"
    g.add(block, text, carry, [tests, body], f"_, {numbered(0, n)}", n)


def fori_loop(g: Generator, block: Block, depth: int) -> None:
    carry = several(g, block)
    if carry is None:
        return
    n = len(carry)
    count = g.random.choice(["3", "3", "0", f"{{{n}}}"])
    bound = strong(g, block, "i") if "{" in count else None
    bound = bound and g.fitted(block, bound, Type((), "int32"))
    if "{" in count and not bound:
        return
    index = Type((), "int32") if bound else Type((), "int64" if g.x64 else "int32", True)
    inner = g.inner([index, *types_of(g, carry)], block, depth)
    outs = ending_in(g, inner, types_of(g, carry))
    if outs is None:
        return
    body = function(
        g, inner, n + 1, outs, signature="{0}, carry", opening=f"{numbered(1, n)}, = carry", closing=tupled(n)
    )
    limit = f"jnp.clip({count}, 0, 4)" if bound else count
    g.add(
        block,
        f"lax.fori_loop(0, {limit}, {{f0}}, {tupled(n)})",
        [*carry, *([bound] if bound else [])],
        [body],
        tupled(n),
        n,
    )


def over_rows(g: Generator, block: Block, depth: int) -> None:
    """lax.map"""
    rows = strong(g, block, rank=1)
    if rows is None:
        return
    inner = g.inner([Type(g.types[rows].shape[1:], g.types[rows].dtype)], block, depth)
    options = g.random.choice(["", "", ", batch_size=2"])
    g.add(block, f"lax.map({{f0}}, {{0}}{options})", [rows], [function(g, inner, 1, inner.own[-1:])])


def associative_scan(g: Generator, block: Block, depth: int) -> None:
    rows = strong(g, block, "fiu", rank=1)
    if rows is not None:
        operation = g.random.choice(["jnp.add", "jnp.maximum", "jnp.minimum", "jnp.multiply"])
        options = g.random.choice(["", ", reverse=True", f", axis={g.random.randrange(len(g.types[rows].shape))}"])
        g.add(block, f"lax.associative_scan({operation}, {{0}}{options})", [rows])


# -- Transformations


def jit(g: Generator, block: Block, depth: int) -> None:
    called(g, block, depth, g.random.choice(["lib.jit({f0})", "lib.checkpoint({f0})", "lib.jit({f0}, inline=True)",
           "lib.checkpoint({f0}, policy=lib.checkpoint_policies.dots_saveable)",
           "lib.checkpoint({f0}, policy=lib.checkpoint_policies.everything_saveable)"]))  # fmt: skip


def custom_jvp(g: Generator, block: Block, depth: int) -> None:
    """The rule is the derivative of the same function."""
    before = "{f0}_ruled = lib.custom_jvp({f0})\n{f0}_ruled.defjvp(lambda ps, ts: lib.jvp({f0}, ps, ts))\n"
    called(g, block, depth, "{f0}_ruled", before, "f")


def custom_vjp(g: Generator, block: Block, depth: int) -> None:
    before = (
        "{f0}_ruled = lib.custom_vjp({f0})\n"
        "{f0}_ruled.defvjp(lambda *xs: ({f0}(*xs), xs), lambda xs, ct: lib.vjp({f0}, *xs)[1](ct))\n"
    )
    called(g, block, depth, "{f0}_ruled", before, "f")


def called(g: Generator, block: Block, depth: int, text: str, before: str = "", kinds: str = "fciub") -> None:
    names = several(g, block, kinds)
    if names is None:
        return
    ruled = bool(before)
    visible, block.visible = (
        block.visible,
        [] if ruled else block.visible,
    )  # closures of ruled functions are no operands
    inner = g.inner(types_of(g, names), block, depth)
    block.visible = visible
    results = smooth_results(g, inner, g.palette[0]) if ruled else inner.own[-2:]
    if results is None:
        return
    n = len(results)
    body = function(g, inner, len(names), results, closing=tupled(n))
    g.add(block, f"{before}{text}({numbered(0, len(names))})", names, [body], tupled(n), n)


def vmap(g: Generator, block: Block, depth: int) -> None:
    first = strong(g, block, rank=1)
    if first is None:
        return
    axis = g.random.randrange(len(g.types[first].shape))
    size = g.types[first].shape[axis]
    names, axes = [first], [axis]
    for _ in range(g.random.choice([0, 1, 1])):
        other = strong(g, block)
        if other is not None:
            fitting = [i for i, n in enumerate(g.types[other].shape) if n == size]
            names.append(other)
            axes.append(g.random.choice([*fitting, None]))  # type: ignore[arg-type]
    types = []
    for name, at in zip(names, axes):
        of = g.types[name]
        types.append(of if at is None else Type((*of.shape[:at], *of.shape[at + 1 :]), of.dtype))
    inner = g.inner(types, block, depth)
    results = inner.own[-2:]
    n = len(results)
    out_axes = g.random.choice(["0", "0", "-1"])
    body = function(g, inner, len(names), results, closing=tupled(n))
    text = f"lib.vmap({wrapped(g)}, in_axes={tuple(axes)}, out_axes={out_axes})"
    text = g.random.choice(["lib.jit(%s)", "%s", "%s"]) % text
    g.add(block, f"{text}({numbered(0, len(names))})", names, [body], tupled(n), n)


def grad(g: Generator, block: Block, depth: int) -> None:
    names = several(g, block, "f")
    if names is None:
        return
    inner = g.inner(types_of(g, names), block, depth)
    source = g.random.choice(inner.own[-3:])
    result = g.fitted(inner, source, Type((), g.types[names[0]].dtype))
    if result is None:
        return
    n = len(names)
    body = function(g, inner, n, [result])
    argnums = tuple(range(n))
    if g.random.random() < 0.75:
        text, target, m = f"lib.grad({wrapped(g)}, {argnums})", tupled(n), n
    else:
        text, target, m = f"lib.value_and_grad({wrapped(g)}, {argnums})", f"{{0}}, ({numbered(1, n)},)", n + 1
    text = g.random.choice(["lib.jit(%s)", "%s", "%s"]) % text
    g.add(block, f"{text}({numbered(0, n)})", names, [body], target, m)


def second_order(g: Generator, block: Block, depth: int) -> None:
    """A gradient's derivative, a Jacobian, a Hessian."""
    name = strong(g, block, "f", 6)
    if name is None:
        return
    inner = g.inner([g.types[name]], block, 0, 3)
    of = g.types[name]
    text = g.random.choice(["lib.jacfwd({f0})({0})", "lib.jacrev({f0})({0})", "lib.hessian({f0})({0})",
                            "lib.grad(lambda t: jnp.sum(lib.grad({f0})(t) * t))({0})",
                            "lib.jvp(lib.grad({f0}), ({0},), ({0},))[1]",
                            "lib.vmap(lib.grad({f0}))(jnp.stack([{0}, {0} + 1]))"])  # fmt: skip
    if "grad" in text or "hessian" in text:
        result = g.fitted(inner, inner.own[-1], Type((), of.dtype))
    else:
        result = next((x for x in reversed(inner.own) if g.types[x].kind == "f" and g.types[x].size <= 6), None)
    if result is not None:
        g.add(block, text, [name], [function(g, inner, 1, [result])])


def differentiated(g: Generator, block: Block, depth: int) -> tuple[list[str], Function, list[Type]] | None:
    """Operands, a function of these, and what it gives, all floats."""
    names = several(g, block, "f")
    if names is None:
        return None
    inner = g.inner(types_of(g, names), block, depth)
    results = smooth_results(g, inner, g.types[names[0]].dtype)
    if results is None:
        return None
    body = function(g, inner, len(names), results, closing=tupled(len(results)))
    return names, body, types_of(g, results)


def alike(g: Generator, block: Block, types: Sequence[Type]) -> list[str] | None:
    """Values of these types: tangents or cotangents."""
    names = []
    for of in types:
        source = g.pick(block, "f")
        name = source and g.fitted(block, source, of)
        if not name:
            return None
        names.append(name)
    return names


def jvp(g: Generator, block: Block, depth: int) -> None:
    found = differentiated(g, block, depth)
    tangents = found and alike(g, block, types_of(g, found[0]))
    if not found or not tangents:
        return
    names, body, types = found
    k, n = len(names), len(types)
    if g.random.random() < 0.6:
        text = f"lib.jvp({wrapped(g)}, {tupled(k)}, ({numbered(k, k)},))"
        g.add(block, text, [*names, *tangents], [body], f"{tupled(n)}, ({numbered(n, n)},)", 2 * n)
    else:
        text = f"lib.linearize({wrapped(g)}, {numbered(0, k)})[1]({numbered(k, k)})"
        g.add(block, text, [*names, *tangents], [body], tupled(n), n)


def vjp(g: Generator, block: Block, depth: int) -> None:
    found = differentiated(g, block, depth)
    cotangents = found and alike(g, block, found[2])
    if not found or not cotangents:
        return
    names, body, types = found
    k, n = len(names), len(types)
    if g.random.random() < 0.6:
        text = f"lib.vjp({wrapped(g)}, {numbered(0, k)})[1](({numbered(k, n)},))"
    else:
        ts = ", ".join(f"t{i}" for i in range(k))
        linear = f"lambda {ts}: lib.jvp({wrapped(g)}, {tupled(k)}, ({ts},))[1]"
        text = f"lib.linear_transpose({linear}, {numbered(0, k)})(({numbered(k, n)},))"
    g.add(block, text, [*names, *cotangents], [body], tupled(k), k)


STRUCTURES = {
    cond: 5, switch: 2, scan: 6, while_loop: 3, fori_loop: 3, over_rows: 2, associative_scan: 1.5, jit: 4, 
    custom_jvp: 2, custom_vjp: 2, vmap: 7, grad: 6, second_order: 2, jvp: 4, vjp: 4,
}  # fmt: skip
