"""Runs programs, in this process or each in a process of its own, on jax or on xpr in its place.

    python -m tests.jax_documentation.run jax|xpr PROGRAMS OUTCOMES [SECONDS]

`OUTCOMES` gets a line for each cell that ended: the program, the number of the cell, and what its steps gave. With a
number of seconds each program has a process, which is ended after these.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import functools
import importlib
import io
import json
import linecache
import multiprocessing
import os
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from tests.jax_documentation.programs import Cell, Outcome, Program, Step, load

DEVICES = 8


def main(library: str, programs: Path, outcomes: Path, seconds: float | None = None) -> None:
    os.environ |= {"XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}", "JAX_PLATFORMS": "cpu"}
    os.environ["MPLBACKEND"] = "agg"
    if library == "xpr":
        importlib.import_module("xpr.as_jax")
    for name in ("jax", "jax.numpy", "jax.scipy", "jax.random"):
        importlib.import_module(name)
    warnings.simplefilter("ignore")
    with outcomes.open("w") as file:
        for program in load(programs):
            if seconds is None:
                run(program, file)
            else:
                _run_apart(program, file, seconds)


def _run_apart(program: Program, file: IO[str], seconds: float) -> None:
    process = multiprocessing.get_context("fork").Process(target=run, args=(program, file))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()


def run(program: Program, file: IO[str]) -> None:
    """Runs the cells of a program in one namespace, in which jax, its numpy, and NumPy are by their usual names."""
    jax = importlib.import_module("jax")
    namespace = {**_names_around(program.name), "jax": jax, "jnp": jax.numpy, "lax": jax.lax, "np": np, "P": jax.P}
    namespace |= {"partial": functools.partial, "__name__": "__main__"}
    random.seed(0)
    np.random.seed(0)
    for cell in program.cells:
        outcomes = [dataclasses.astuple(each) for each in _run_cell(jax, program.name, cell, namespace)]
        file.write(json.dumps([program.name, cell.number, outcomes]) + "\n")
        file.flush()


def _names_around(name: str) -> dict[str, Any]:
    """The public names of the module that has a docstring, but for those that Python itself has."""
    path = name
    while path.startswith("jax."):
        with contextlib.suppress(ImportError):
            module = importlib.import_module(path)
            names = [each for each in dir(module) if not each.startswith("_") and not hasattr(builtins, each)]
            return {each: getattr(module, each) for each in names if hasattr(module, each)}
        path = path.rpartition(".")[0]
    return {}


def _run_cell(jax: Any, name: str, cell: Cell, namespace: dict[str, Any]) -> Iterator[Outcome]:
    """What the steps give, up to one that ends the cell by an exception."""
    for number, step in enumerate(cell.steps):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                _run_step(step, f"{name.replace('/', '.')}-{cell.number}.{number}", namespace)
                jax.effects_barrier()
            except BaseException as error:
                yield Outcome(printed.getvalue(), _classes(jax, error), str(error))
            else:
                yield Outcome(printed.getvalue())


def _classes(jax: Any, error: BaseException) -> tuple[str, ...]:
    """The names of the classes of an exception, and those that jax's modules have for them."""
    own = type(error).__mro__
    modules = jax.errors, importlib.import_module("jax.experimental.checkify")
    others = [name for module in modules for name in dir(module) if getattr(module, name, None) in own]
    return tuple(dict.fromkeys([*(each.__name__ for each in own), *others]))


def _run_step(step: Step, filename: str, namespace: dict[str, Any]) -> None:
    linecache.cache[filename] = (len(step.source), None, step.source.splitlines(keepends=True), filename)
    if step.echo:
        exec(compile(step.source, filename, "single"), namespace)
        return
    body = ast.parse(step.source, filename).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) and not step.source.rstrip().endswith(";") else None
    exec(compile(ast.Module(body, []), filename, "exec"), namespace)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), filename, "eval"), namespace)
        if value is not None:
            print(repr(value))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *map(float, sys.argv[4:]))
