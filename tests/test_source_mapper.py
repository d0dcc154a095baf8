"""xpr.experimental.source_mapper: the lines of programs lead to the lines that they came from."""

import json
import re

import numpy as np
import pytest

import xpr.numpy as jnp
from xpr import lax
from xpr.experimental import source_mapper
from xpr.experimental.source_mapper import MappingsGenerator, SourceMap

pytestmark = pytest.mark.quick

X = np.ones(3, np.float32)


def network(x):
    y = jnp.sin(x) + x

    def body(carry, row):
        return jnp.cos(carry) * row, carry

    return lax.scan(body, y[0], y)


FIRST = network.__code__.co_firstlineno


def dumped(name, f, *args, **options):
    (dump,) = source_mapper.generate_sourcemaps(f, source_mapper.filter_passes(name))(*args, **options)
    assert dump.pass_name == name and len(dump.source_map.mappings) == len(dump.generated_code.split("\n")) + 1
    return dump


def leads(dump):
    """For each segment of a map, what begins there, the file and its line."""
    source = line_of_source = 0
    found = []
    for text, segments in zip(dump.generated_code.split("\n"), dump.source_map.mappings):
        column = 0
        for segment in segments:
            column += segment[0]
            source, line_of_source = source + segment[1], line_of_source + segment[2]
            found.append((text[column:], dump.source_map.sources[source], line_of_source + 1))
    return found


def lines_of(dump, operation):
    """The lines of the network from which operations of a name came."""
    word = re.compile(rf"\b{operation}\b")
    return {line - FIRST for text, _, line in leads(dump) if word.search(text.split("metadata")[0])}


def test_jaxprs():
    dump = dumped("jaxpr", network, X)
    found = {text.split(" = ")[1].split()[0].split("[")[0]: line - FIRST for text, _, line in leads(dump)}
    assert dump.source_map.sources == [__file__]
    assert (found["sin"], found["add"], found["scan"], found["cos"], found["mul"]) == (1, 1, 6, 4, 4)
    assert all(segment[3] >= 0 for segment in dump.source_map.mappings[0])


def test_several_equations_of_a_line_of_text():
    dump = dumped("jaxpr", lambda x: jnp.sin(jnp.cos(x)), 1.0)
    (line,) = dump.generated_code.split("\n")
    first, second = [text for text, _, _ in leads(dump)]
    assert first.startswith("b:f32[] = cos a") and second.startswith("c:f32[] = sin b") and line.endswith(first)


@pytest.mark.parametrize("name", ["hlo:stable-hlo", "hlo:original", "hlo:optimized"])
def test_hlo(name):
    dump = dumped(name, network, X)
    assert dump.source_map.sources == [__file__]
    assert lines_of(dump, "sine") == {1}
    assert 4 in lines_of(dump, "cosine")
    assert lines_of(dump, "dynamic_slice" if name == "hlo:stable-hlo" else "dynamic-slice") == {6}


def test_programs_are_made_once_with_options():
    traces = []

    def f(x):
        traces.append(x)
        return x + 1

    passes = source_mapper.filter_passes("hlo")
    dumps = source_mapper.generate_sourcemaps(f, passes, xla_compiler_flags={"xla_cpu_enable_fast_math": False})(X)
    assert {dump.pass_name for dump in dumps} == {"hlo:stable-hlo", "hlo:original", "hlo:optimized"}
    assert len(traces) == 1


def test_locations_of_calls_and_of_no_file():
    text = "\n".join(
        [
            "%0 = a.b loc(#loc3)",
            "  %1 = c.d loc(#loc4)",
            "%2 = e.f",
            "%3 = g.h loc(#loc9)",
            '#loc1 = loc("dir/a.py":4:2)',
            '#loc2 = loc("b.py":8:0 to 8:9)',
            "#loc3 = loc(callsite(#loc1 at #loc2))",
            "#loc4 = loc(unknown)",
        ]
    )
    found = source_mapper.create_mlir_sourcemap(text)
    assert found.sources == ["dir/a.py"]
    assert found.mappings == [[(0, 0, 3, 2)], *[[]] * 8]


def test_instructions_of_other_files_and_frames():
    text = "\n".join(
        [
            "HloModule m", "", "FileNames", '1 "a.py"', '2 "b.py"', "", "FileLocations",
            "1 {file_name_id=2 function_name_id=1 line=153 end_line=153 column=2 end_column=31}", "", "StackFrames",
            "7 {file_location_id=1 parent_frame_id=1}", "", "ENTRY main {",
            '  a = pred[] constant(true), metadata={op_name="x" stack_frame_id=7}',
            '  b = pred[] constant(true), metadata={op_name="x" stack_frame_id=8}',
            '  c = pred[] not(a), metadata={op_name="{}" source_file="c.py" source_line=9}, backend_config={"n":1}',
            "}",
        ]
    )  # fmt: skip
    found = source_mapper.parse_hlo_dump(text)
    assert found.sources == ["b.py", "c.py"]
    assert found.mappings[13:16] == [[(2, 0, 152, 2)], [], [(2, 1, -144, -2)]]


def test_maps_as_text():
    generator = MappingsGenerator()
    for line in ([(0,), (2, 0, 16, 4), (9, 1, 3, 1000, 2)], [], [(5, 0, 0, 0, 0)]):
        generator.new_group()
        for segment in line:
            generator.new_segment(*segment)
    source_map = SourceMap(3, ["a.py", "b.py"], [], ["x", "y", "z"], generator.mappings())
    text = source_map.to_json()
    assert json.loads(text)["mappings"] == "A,EAgBI,OCbo+BE;;KDHx+BF"
    assert SourceMap.from_json(text) == source_map
    assert SourceMap.from_json('{"version": 3, "sources": [], "mappings": ""}') == SourceMap(3, [], [], [], [[]])


def test_what_is_refused():
    with pytest.raises(ValueError, match="register_pass: Pass jaxpr already registered"):
        source_mapper.register_pass(*source_mapper.filter_passes("jaxpr"))
    with pytest.raises(RuntimeError, match=r"begin a line first, by new_group\(\)"):
        MappingsGenerator().new_segment(1)
    with pytest.raises(ValueError, match=r"a segment is 1, 4 or 5 numbers, and is \(1, 2\)"):
        MappingsGenerator().new_segment(1, 2)
    with pytest.raises(TypeError, match="generate_sourcemaps"):
        source_mapper.generate_sourcemaps(3, [])
