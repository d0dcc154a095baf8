"""The graph of a program: boxes for arguments, equations and results, arrows for values.

x --> sin --> mul --> result
 \\------------^
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr.inspect.graph_layout import GraphLayout, layered
from xpr.inspect.tables import Tables

CHARACTER = 7.25  # the width of a letter
BOX_HEIGHT = 24.0


class Box(NamedTuple):
    """`kind` is "const", "arg", "eqn" or "out"; `position` counts within its kind."""

    kind: str
    position: int
    text: str
    holds: tuple[int, ...] = ()  # the numbers of an equation's jaxprs


class Arrow(NamedTuple):
    start: int
    end: int
    value: int  # the number of its variable


class Graph(NamedTuple):
    boxes: list[Box]
    arrows: list[Arrow]


def graph_of(tables: Tables, number: int) -> Graph:
    """The graph of one jaxpr of a program; unused arguments are left out."""
    constants, arguments, results, first, count = tables.jaxprs[number]
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    producer: dict[int, int] = {}

    def read(operands: list[int], at: int) -> None:
        arrows.extend([Arrow(producer[v], at, v) for v in dict.fromkeys(operands) if v >= 0])

    eqns = tables.eqns[first : first + count]
    needed = {v for eqn in eqns for v in eqn[1]} | set(results)
    for kind, group in (("const", constants), ("arg", arguments)):
        for index, v in enumerate(group):
            if v in needed:
                producer[v] = len(boxes)
                boxes.append(Box(kind, index, tables.names[v]))
    for index, eqn in enumerate(eqns):
        read(eqn[1], len(boxes))
        producer.update(dict.fromkeys(eqn[2], len(boxes)))
        boxes.append(Box("eqn", index, _title(tables, eqn), _inner_jaxprs(tables, eqn)))
    for index, v in enumerate(results):
        read([v], len(boxes))
        boxes.append(Box("out", index, tables.text_of(v)))
    return Graph(boxes, arrows)


def _title(tables: Tables, eqn: list[Any]) -> str:
    """The name of the function that an equation calls, where it has one; else that of the primitive."""
    inner = _inner_jaxprs(tables, eqn)
    name = dict(tables.parameter_sets[eqn[3]]).get("name") if inner else None
    return name if isinstance(name, str) and name.isidentifier() else tables.primitives.items[eqn[0]]


def _inner_jaxprs(tables: Tables, eqn: list[Any]) -> tuple[int, ...]:
    if eqn[3] < 0:
        return ()
    groups = [value for _, value in tables.parameter_sets[eqn[3]] if type(value) is list]
    return tuple([item for group in groups for item in group if type(item) is int])


def box_width(text: str) -> float:
    return round(max(30.0, len(text) * CHARACTER + 18))


def layout_of(graph: Graph) -> GraphLayout:
    """The positions of the boxes of a graph, each as large as its text."""
    widths = [box_width(box.text) for box in graph.boxes]
    return layered(widths, [BOX_HEIGHT] * len(widths), [(arrow.start, arrow.end) for arrow in graph.arrows])
