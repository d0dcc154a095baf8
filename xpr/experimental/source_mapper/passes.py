"""The programs that source maps are made of, each by a pass: a function that makes the program, and one for its map."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xpr.core.source import check_function
from xpr.errors import ArgumentError
from xpr.experimental.source_mapper.maps import SourceMap


@dataclass(frozen=True, slots=True)
class SourceMapDump:
    """The text of a program, the map from it to the source, and the name of the pass that gave both."""

    source_map: SourceMap
    generated_code: str
    pass_name: str


@dataclass(frozen=True, slots=True)
class Pass:
    """How a sort of program is made of a function, and the map of its text.

    Attributes:
      name: by which it is chosen.
      compile_fn: `compile_fn(folder, function, args, kwargs, **options)` makes the program, and may write files to the
        folder. Passes with the same one share the program.
      generate_dump: `generate_dump(program, **options)` makes a `SourceMapDump` of it.
    """

    name: str
    compile_fn: Callable[..., Any]
    generate_dump: Callable[..., SourceMapDump]


_registered: dict[str, Pass] = {}


def register_pass(pass_: Pass) -> None:
    """Adds a pass.

    Args:
      pass_: the pass.

    Raises:
      ValueError: there is one of its name.

    >>> from xpr.experimental import source_mapper
    >>> source_mapper.register_pass(source_mapper.Pass("of_an_example", lambda *args: None, lambda program: None))
    >>> [each.name for each in source_mapper.filter_passes("of_an")]
    ['of_an_example']
    """
    if pass_.name in _registered:
        raise ArgumentError(f"register_pass: Pass {pass_.name} already registered. Give it another name.")
    _registered[pass_.name] = pass_


def all_passes() -> Sequence[Pass]:
    """All passes.

    >>> from xpr.experimental import source_mapper
    >>> sorted(each.name for each in source_mapper.all_passes() if each.name != "of_an_example")
    ['hlo:optimized', 'hlo:original', 'hlo:stable-hlo', 'jaxpr']
    """
    return list(_registered.values())


def filter_passes(regex: str) -> Sequence[Pass]:
    """The passes whose names begin with what a regular expression matches.

    Args:
      regex: the expression.

    Returns:
      A list of passes.

    >>> from xpr.experimental import source_mapper
    >>> [each.name for each in source_mapper.filter_passes("hlo:o")]
    ['hlo:original', 'hlo:optimized']
    """
    return [each for each in _registered.values() if re.match(regex, each.name)]


def generate_sourcemaps(
    f: Callable[..., Any], passes: Sequence[Pass], **pass_kwargs: Any
) -> Callable[..., Sequence[SourceMapDump]]:
    """A function of the same arguments that gives programs of `f`, with maps to the lines that they came from.

    Args:
      f: a function of pytrees of arrays.
      passes: which programs.
      **pass_kwargs: options of passes, such as `xla_compiler_flags`, a dict, of "hlo:optimized".

    Returns:
      A function that returns a list with a `SourceMapDump` for each pass.

    Raises:
      TypeError: `f` is no function.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import source_mapper
    >>> of_sine = source_mapper.generate_sourcemaps(lambda x: jnp.sin(x), source_mapper.filter_passes("jaxpr"))
    >>> (dump,) = of_sine(1.0)
    >>> dump.generated_code
    '{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }'
    >>> (column, _, line, _), = dump.source_map.mappings[0]
    >>> dump.generated_code[column:], line
    ('b:f32[] = sin a in (b,) }', 0)
    """
    check_function(f, "generate_sourcemaps")

    def generate(*args: Any, **kwargs: Any) -> Sequence[SourceMapDump]:
        programs: dict[Any, Any] = {}
        dumps = []
        with tempfile.TemporaryDirectory() as folder:
            for each in passes:
                if each.compile_fn not in programs:
                    own = os.path.join(folder, each.name.replace(":", "__"))
                    os.makedirs(own)
                    programs[each.compile_fn] = each.compile_fn(own, f, args, kwargs, **pass_kwargs)
                dumps.append(each.generate_dump(programs[each.compile_fn], **pass_kwargs))
        return dumps

    return generate
