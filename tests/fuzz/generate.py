"""Random programs by seed: what is drawn, and how each statement is typed.

A statement is proposed from the tables, and typed by tracing it alone in this library. One that this library refuses is
left out of the program and remembered: where the peer accepts it, that is a hit, too (checks.py).
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import xpr
from tests.fuzz import operations, structures
from tests.fuzz.programs import Function, Program, Statement, Type, compiled

SMALL = [((3,), 8), ((), 7), ((2, 3), 8), ((3, 3), 2), ((1,), 1), ((0,), 1), ((0, 3), 0.5), ((2, 1, 3), 1), ((6,), 1)]
LARGE = [((200_003,), 3), ((448, 449), 3), ((), 3), ((3,), 1)]
FLOATS = ["float32", "bfloat16", "float16"]
SPECIAL = ["np.nan", "np.inf", "-np.inf", "-0.0", "0.0", "1.0", "-1.0", "1e30", "1e-30"]


@dataclass
class Block:
    """Statements so far, and the names that they can read."""

    visible: list[str]
    statements: list[Statement] = field(default_factory=list)
    own: list[str] = field(default_factory=list)  # parameters and results


@dataclass(frozen=True)
class Refusal:
    """A statement that this library refused, as a program of its own."""

    program: Program
    error: str


class Generator:
    """The choices of one program. `large`: arrays of over 200,000 elements. `smooth`: all float64."""

    def __init__(self, seed: Any):
        self.random = random.Random(f"fuzz {seed}")
        self.seed = seed
        self.types: dict[str, Type] = {}
        self.refusals: list[Refusal] = []
        self.names = 0
        chance = self.random.random()
        self.large = chance < 0.02
        self.x64 = self.random.random() < 0.3
        self.smooth = self.x64 and self.random.random() < 0.7
        self.special = not self.smooth and self.random.random() < 0.25
        table = LARGE if self.large else SMALL
        self.shapes, self.weights = [s for s, _ in table], [w for _, w in table]
        self.palette = self.dtypes()
        self.budget = self.random.randint(2, 5) if self.large else self.random.choice([2, 3, 4, 6, 9])
        self.limit = 400_000 if self.large else 64

    def dtypes(self) -> list[str]:
        """Which dtypes the program is made of: mostly one of floats, one or two others."""
        if self.smooth:
            return ["float64"]
        main = "float64" if self.x64 else self.random.choices(FLOATS, [8, 1, 1])[0]
        others = [
            "int32",
            "int64" if self.x64 else "uint8",
            "int8",
            "bool",
            "complex64",
            "float32",
            "float16",
            "bfloat16",
        ]
        return [main] * 3 + self.random.sample(others, self.random.choice([0, 1, 1, 2, 3]))

    # -- Programs

    def program(self) -> Program:
        inputs = {}
        for _ in range(self.random.randint(1, 3)):
            inputs.update([self.input()])
        block = Block(list(inputs), [], list(inputs))
        self.fill(block, self.budget, 3 if not self.large else 1)
        made = [name for statement in block.statements for name in statement.results] or list(inputs)
        results = list(dict.fromkeys([made[-1], *self.random.sample(made, min(2, len(made)))]))
        return Program(inputs, tuple(block.statements), tuple(results), self.types, self.x64)

    def input(self) -> tuple[str, str]:
        if self.random.random() < 0.12 and not self.smooth:
            text = self.random.choice(["0.7", "2", "True", "-1.5", "3"])
            dtype = {"T": "bool", "2": "int32", "3": "int32"}.get(text[0], "float32")
            if self.x64:
                dtype = dtype.replace("32", "64")
            return self.named(Type((), dtype, dtype != "bool")), text
        of = Type(self.random.choices(self.shapes, self.weights)[0], self.random.choice(self.palette))
        return self.named(of), self.value_text(of)

    def value_text(self, of: Type) -> str:
        """An expression in NumPy of random values."""
        low, high = (-4, 5) if of.kind == "i" else (0, 6)
        if of.size > 64:
            generator, seed = "np.random.default_rng", self.random.randrange(100)
            drawn = f"uniform(-2, 2, {of.shape})" if of.kind in "fc" else f"integers({low}, {high}, {of.shape})"
            text = f"{generator}({seed}).{drawn}.astype('{of.dtype}')"
            return (
                text
                if not self.special
                else f"np.where(np.arange({of.shape[-1]}) == 7, {self.special_value(of)}, {text}).astype('{of.dtype}')"
            )
        items = [self.number(of, low, high) for _ in range(of.size)]
        text = f"np.array([{', '.join(items)}], '{of.dtype}')"
        return text if len(of.shape) == 1 else f"{text}.reshape({of.shape})"

    def number(self, of: Type, low: int, high: int) -> str:
        if self.special and self.random.random() < 0.3:
            return self.special_value(of)
        if of.kind in "iu":
            return str(self.random.randrange(low, high))
        if of.kind == "b":
            return str(self.random.random() < 0.5)
        drawn = f"{self.random.uniform(-2, 2):.3f}"
        return drawn if of.kind == "f" else f"{drawn}{self.random.uniform(-2, 2):+.3f}j"

    def special_value(self, of: Type) -> str:
        if of.kind in "fc":
            return self.random.choice(SPECIAL if of.dtype not in ("float16",) else SPECIAL[:-2])
        if of.kind == "b":
            return "True"
        largest = np.iinfo(of.dtype)
        return str(self.random.choice([largest.min, largest.max, 0, 1]))

    # -- Names and types

    def named(self, of: Type, letter: str | None = None) -> str:
        self.names += 1
        name = f"{letter or {'f': 'x', 'c': 'z', 'b': 'p'}.get(of.kind, 'n')}{self.names}"
        self.types[name] = of
        return name

    def typed(self, statement: Statement) -> list[Type]:
        reads = sorted(statement.reads)
        body = Function(
            "typed", tuple(reads), (statement,), statement.results, closing=f"[{', '.join(statement.results)}]"
        )
        fun = compiled("\n".join(body.lines()), xpr)["typed"]
        types = [self.types[name] for name in reads]
        with xpr.enable_x64(self.x64), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            avals = [xpr.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak) for t in types]
            return [Type(tuple(y.shape), str(y.dtype), y.weak_type) for y in xpr.eval_shape(fun, *avals)]

    def add(
        self,
        block: Block,
        text: str,
        operands: Sequence[str] = (),
        functions: Sequence[Function] = (),
        target: str = "",
        n: int = 1,
    ) -> list[str] | None:
        """Adds a statement of `n` results, unless it is refused; gives their names."""
        self.names += n
        names = tuple(f"v{self.names - n + 1 + i}" for i in range(n))
        statement = Statement(names, text, tuple(operands), tuple(functions), target)
        try:
            types = self.typed(statement)
        except RecursionError:
            return None
        except Exception as error:  # what a library raises by mistake can be of any type
            self.refusals.append(self.refused(statement, error))
            return None
        if any(t.size > self.limit or len(t.shape) > 4 or t.dtype == "float0" for t in types):
            return None
        self.types.update(zip(names, types, strict=True))
        block.statements.append(statement)
        block.visible.extend(names)
        block.own.extend(names)
        return list(names)

    def refused(self, statement: Statement, error: Exception) -> Refusal:
        inputs = {name: self.value_text(self.types[name]) for name in sorted(statement.reads)}
        weak = {
            name: {"f": "0.7", "i": "2", "b": "True"}.get(self.types[name].kind)
            for name in inputs
            if self.types[name].weak
        }
        inputs.update({name: text for name, text in weak.items() if text and not self.types[name].shape})
        program = Program(inputs, (statement,), statement.results, self.types, self.x64)
        return Refusal(program, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")

    def pick(self, block: Block, kinds: str, fits: Callable[[Type], bool] = lambda of: True) -> str | None:
        """A visible value of one of the kinds, one that was made lately more often."""
        found = [name for name in block.visible if self.types[name].kind in kinds and fits(self.types[name])]
        if not found:
            return None
        return self.random.choices(found, [1 + (i + 1) * 3 / len(found) for i in range(len(found))])[0]

    def literal(self, kinds: str) -> str:
        choices = [x for x in ("0.5", "-1.5", "2.0", "0.0") if "f" in kinds] + [
            x for x in ("2", "1", "3") if set(kinds) & set("iuf")
        ]
        choices += ["True"] if "b" in kinds and len(kinds) == 1 else []
        choices += ["1j"] if "c" in kinds and "complex64" in self.palette else []
        return self.random.choice(choices or ["1"])

    def fitted(self, block: Block, name: str, to: Type, bounded: bool = False) -> str | None:
        """The value made into one of another type, strong: summed, broadcast and converted as needed."""
        of, text = self.types[name], "{0}"
        if of.kind == "c" and to.kind != "c":
            text = "{0}.real"
        if of.shape != to.shape:
            try:
                broadcasts = np.broadcast_shapes(of.shape, to.shape) == to.shape
            except ValueError:
                broadcasts = False
            if not broadcasts:
                text = f"jnp.sum({text})"
            text = text if not to.shape else f"jnp.broadcast_to({text}, {to.shape})"
        if to.kind == "b" and of.kind != "b":
            text = f"({text} > 0.25)"
        elif of.dtype != to.dtype or of.weak or "sum" in text:
            text = (
                f"{text}.astype('{to.dtype}')" if text != "{0}" or not of.weak else f"jnp.asarray({text}, '{to.dtype}')"
            )
        if bounded and to.kind == "f":
            text = f"jnp.{self.random.choice(['tanh', 'sin', 'tanh', 'arctan'])}({text})"
        if text == "{0}":
            return name
        made = self.add(block, text, [name])
        return made[0] if made and self.types[made[0]] == to else None

    # -- Statements

    def fill(self, block: Block, count: int, depth: int) -> None:
        """Adds about `count` statements; what needs functions is added while `depth` lasts."""
        for _ in range(2 * count):
            if len(block.statements) >= count:
                return
            if depth and self.random.random() < (0.3 if depth == 3 else 0.22):
                structures.propose(self, block, depth - 1)
            else:
                self.operation(block)

    def inner(self, parameters: Sequence[Type], outer: Block, depth: int, count: int | None = None) -> Block:
        """A block for a function of parameters of these types, which reads the outer one, too."""
        names = [self.named(of, "a") for of in parameters]
        visible = outer.visible if self.random.random() < 0.5 else []
        block = Block([*visible, *names], [], list(names))
        self.fill(block, count or self.random.choice([1, 2, 2, 3]), depth)
        return block

    def operation(self, block: Block) -> None:
        families = operations.FAMILIES
        chosen = self.random.choices([*families, "function"], [w for _, w in families.values()] + [6])[0]
        if chosen == "function":
            name = self.pick(block, "fciub")
            text = name and self.random.choice(operations.BY_FUNCTION)(self, self.types[name])
            if name and text:
                self.add(block, text, [name])
            return
        row = self.random.choice(families[chosen][0])
        operands = self.operands(row, block)
        if operands is not None:
            self.add(block, self.along(row.text, self.types.get(operands[0])), operands)

    def operands(self, row: operations.Row, block: Block) -> list[str] | None:
        first = self.pick(block, row.kinds[0], lambda of: len(of.shape) >= row.rank and of.size <= row.largest)
        if first is None:
            return None
        of, names = self.types[first], [first]
        for kinds in row.kinds[1:]:
            name = self.operand(row, kinds, of, block)
            if name is None:
                return None
            names.append(name)
        if row.shapes == "broadcast" and len(names) == 2 and self.random.random() < 0.15:
            other = self.literal(row.kinds[0])
            names = [other, names[1]] if names[1] in self.types else names
        return names

    def operand(self, row: operations.Row, kinds: str, of: Type, block: Block) -> str | None:
        if row.shapes == "index":
            if self.random.random() < 0.4:
                return self.random.choice(
                    ["0", "-1", "1", "jnp.array([0, 2])", "jnp.array([[1], [0]])", "jnp.int32(1)"]
                )
            return self.pick(block, kinds, lambda t: len(t.shape) < 3)
        if row.shapes == "same":
            if row.kinds[0] == "b":
                return self.pick(block, kinds, lambda t: t.shape == of.shape)
            return self.pick(block, kinds, lambda t: t == of)
        if self.random.random() < 0.25:
            return self.literal(kinds)
        return self.pick(block, kinds, lambda t: broadcastable(t.shape, of.shape)) or self.literal(kinds)

    def along(self, text: str, of: Type | None) -> str:
        """The text with an axis, and a slice, of its operand."""
        if "{axis}" not in text and "{positive}" not in text and "{slice}" not in text:
            return text
        axis = self.random.randrange(len(of.shape)) if of is not None and of.shape else 0
        signed = axis - len(of.shape) if of is not None and of.shape and self.random.random() < 0.4 else axis
        slice_ = self.random.choice(["1:", ":-1", "::2", "1:2", "::-1"])
        for hole, value in (("{axis}", signed), ("{positive}", axis), ("{slice}", slice_)):
            text = text.replace(hole, str(value))
        return text


def broadcastable(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(one, two)
    except ValueError:
        return False
    return True
