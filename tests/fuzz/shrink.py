"""Programs made smaller while they fail in the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tests.fuzz.programs import _NAME, Function, Program, Statement, free_names


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 30.0) -> Program:
    """The smallest program found in the time, by trying one change after another until none makes it fail still."""
    until = time.monotonic() + seconds
    without_dead = cleaned(program)
    if fails(without_dead):  # what fails may be an unused statement
        program = without_dead
    progress = True
    while progress and time.monotonic() < until:
        progress = False
        for candidate in candidates(program):
            if time.monotonic() > until:
                break
            candidate = cleaned(candidate)
            if weight(candidate) < weight(program) and fails(candidate):
                program, progress = candidate, True
                break
    return program


def weight(program: Program) -> tuple[int, int]:
    """How much there is to read."""
    statements = len(list(program.all_statements()))
    text = program.source()
    return 40 * statements + 3 * len(program.results) + 5 * len(program.inputs), len(text) + 5 * len(
        re.findall(r"[1-9]", text)
    )


def candidates(program: Program) -> Iterator[Program]:
    if len(program.results) > 1:
        yield from (program.with_results(name) for name in program.results)
    for statement in reversed(program.statements):  # an earlier result
        if program.results != statement.results[:1]:
            yield program.with_results(statement.results[0])
    yield from inlined(program)
    yield from replaced(program)
    yield from unwrapped(program)
    yield from simpler_inputs(program)


def replaced(program: Program) -> Iterator[Program]:
    """A statement's result is another value of its type, or a constant."""
    for statement, visible in reversed(list(scopes(program.statements, tuple(program.inputs)))):
        changes: list[Mapping[str, str]] = [{}]
        for result in statement.results:
            of = program.types.get(result)
            if of is None:  # of a statement that is refused
                changes = []
                break
            near = [name for name in (*statement.reads, *visible) if program.types.get(name) == of and name in visible]
            choices = [*list(dict.fromkeys(near))[:3], of.constant()]
            changes = [{**change, result: choice} for change in changes for choice in choices][:6]
        for change in changes:
            yield substituted(program, change)


def scopes(statements: tuple[Statement, ...], visible: tuple[str, ...]) -> Iterator[tuple[Statement, tuple[str, ...]]]:
    """Each statement with the names that it can read."""
    for statement in statements:
        yield statement, visible
        for function in statement.functions:
            yield from scopes(function.statements, (*visible, *function.parameters))
        visible = (*visible, *statement.results)


def inlined(program: Program) -> Iterator[Program]:
    """What a statement calls replaces it."""
    for statement, _ in scopes(program.statements, ()):
        if len(statement.functions) != 1:
            continue
        function = statement.functions[0]
        if len(function.parameters) <= len(statement.operands) and len(function.results) == len(statement.results):
            change = dict(zip(function.parameters, statement.operands))
            inner = tuple(renamed(s, change) for s in function.statements)
            results = tuple(_renamed(x, change) for x in function.results)
            body = with_statement(program, statement, inner)
            yield substituted(body, dict(zip(statement.results, results)))


def unwrapped(program: Program) -> Iterator[Program]:
    """A transformation without the one more that is around its function."""
    for statement, _ in scopes(program.statements, ()):
        for wrapper in ("lib.jit(", "lib.checkpoint(", "lib.remat("):
            for match in re.finditer(re.escape(wrapper), statement.text):
                text, depth = statement.text, 1
                for end in range(match.end(), len(text)):
                    depth += {"(": 1, ")": -1}.get(text[end], 0)
                    if depth == 0:
                        changed = text[: match.start()] + text[match.end() : end] + text[end + 1 :]
                        yield with_statement(program, statement, (replace(statement, text=changed),))
                        break


def simpler_inputs(program: Program) -> Iterator[Program]:
    for name, text in program.inputs.items():
        of = program.types[name]
        if of.weak:
            continue
        for simple in (f"np.ones({of.shape}, '{of.dtype}')", f"np.zeros({of.shape}, '{of.dtype}')"):
            yield replace(program, inputs={**program.inputs, name: simple})
        for number in list(re.finditer(r"(?<=[\[ ])[-\w.]+(?=[,\]])", text)) if "default_rng" not in text else ():
            if number.group() not in ("1", "0"):
                for simple in ("1", "0"):
                    yield replace(
                        program, inputs={**program.inputs, name: text[: number.start()] + simple + text[number.end() :]}
                    )


# -- Changes of programs


def with_statement(program: Program, statement: Statement, by: tuple[Statement, ...]) -> Program:
    def change(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        changed: list[Statement] = []
        for each in statements:
            if each is statement:
                changed.extend(by)
            else:
                functions = tuple(replace(f, statements=change(f.statements)) for f in each.functions)
                changed.append(replace(each, functions=functions))
        return tuple(changed)

    return replace(program, statements=change(program.statements))


def substituted(program: Program, change: Mapping[str, str]) -> Program:
    """The program in which other expressions stand for some names, whose statements go."""

    def without(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        kept = [s for s in statements if not set(s.results) <= change.keys()]
        return tuple(
            replace(s, functions=tuple(replace(f, statements=without(f.statements)) for f in s.functions)) for s in kept
        )

    statements = tuple(renamed(s, change) for s in without(program.statements))
    return replace(program, statements=statements, results=tuple(_renamed(x, change) for x in program.results))


def renamed(statement: Statement, change: Mapping[str, str]) -> Statement:
    functions = tuple(
        replace(
            f,
            statements=tuple(renamed(s, change) for s in f.statements),
            results=tuple(_renamed(x, change) for x in f.results),
        )
        for f in statement.functions
    )  # fmt: skip
    return replace(statement, operands=tuple(_renamed(x, change) for x in statement.operands), functions=functions)


def _renamed(text: str, change: Mapping[str, str]) -> str:
    for _ in range(20):  # one replacement may name another
        new = _NAME.sub(lambda match: change.get(match.group(), match.group()), text)
        if new == text:
            break
        text = new
    return text


def cleaned(program: Program) -> Program:
    """Without the statements and inputs that nothing reads."""
    statements = live(program.statements, program.results)
    read = free_names(statements, program.results)
    inputs = {name: text for name, text in program.inputs.items() if name in read}
    if not inputs and program.inputs:
        inputs = dict([next(iter(program.inputs.items()))])
    return replace(program, statements=statements, inputs=inputs)


def live(statements: tuple[Statement, ...], results: tuple[str, ...]) -> tuple[Statement, ...]:
    needed = {name for x in results for name in _NAME.findall(x)}
    kept = []
    for statement in reversed(statements):
        if needed & set(statement.results):
            functions = tuple(_live_function(f) for f in statement.functions)
            statement = replace(statement, functions=functions)
            kept.append(statement)
            needed |= statement.reads
    return tuple(reversed(kept))


def _live_function(function: Function) -> Function:
    return replace(function, statements=live(function.statements, function.results))
