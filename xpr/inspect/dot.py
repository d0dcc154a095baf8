"""DOT: a program's graph for Graphviz and the many tools that read its language."""

from __future__ import annotations

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, require_jaxpr
from xpr.inspect.graph import graph_of
from xpr.inspect.tables import Tables


def to_dot(jaxpr: Jaxpr | ClosedJaxpr) -> str:
    """A program's graph in Graphviz's language; jaxprs inside it are clusters.

    >>> import xpr, xpr.numpy as jnp
    >>> print(xpr.jaxpr.to_dot(xpr.make_jaxpr(jnp.sin)(1.0)))
    digraph jaxpr {
      node [shape=box, style=rounded, fontname="monospace", fontsize=10];
      edge [fontname="monospace", fontsize=8];
      "0/arg0" [label="a", shape=plain];
      "0/eqn0" [label="sin"];
      "0/out0" [label="b", shape=plain];
      "0/arg0" -> "0/eqn0" [label="a:f32[]"];
      "0/eqn0" -> "0/out0" [label="b:f32[]"];
    }
    """
    tables = Tables(require_jaxpr("to_dot", jaxpr))
    lines = ["digraph jaxpr {", '  node [shape=box, style=rounded, fontname="monospace", fontsize=10];']
    lines.append('  edge [fontname="monospace", fontsize=8];')
    lines += _dot_lines(tables, 0, "0", "  ")
    return "\n".join([*lines, "}"])


def _dot_lines(tables: Tables, number: int, path: str, indent: str) -> list[str]:
    graph = graph_of(tables, number)
    names = [f"{path}/{box.kind}{box.position}" for box in graph.boxes]
    lines = []
    for box, name in zip(graph.boxes, names):
        shape = "" if box.kind == "eqn" else ", shape=plain"
        lines.append(f"{indent}{_quoted(name)} [label={_quoted(box.text)}{shape}];")
        for at, inner in enumerate(box.holds):
            lines.append(f"{indent}subgraph {_quoted(f'cluster_{name}.{at}')} {{")
            lines.append(f'{indent}  label={_quoted(box.text)}; style="rounded,dashed"; fontsize=9;')
            lines += _dot_lines(tables, inner, f"{name}.{at}", indent + "  ")
            lines.append(indent + "}")
    for start, end, value in graph.arrows:
        label = _quoted(tables.typed(value))
        lines.append(f"{indent}{_quoted(names[start])} -> {_quoted(names[end])} [label={label}];")
    return lines


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
