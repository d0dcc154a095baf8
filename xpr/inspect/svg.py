"""SVG: a program's graph as a drawing, jaxprs inside it within the boxes of their equations."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, require_jaxpr
from xpr.inspect.graph import BOX_HEIGHT, Arrow, Box, box_width, graph_of
from xpr.inspect.graph_layout import layered
from xpr.inspect.tables import Tables

_LIGHT = """
text { font: 12px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2933;
  text-anchor: middle; dominant-baseline: central; }
.page { fill: #fcfcfb; } .eqn { fill: #ffffff; stroke: #b8c2cc; } .call { fill: #f2f6fc; stroke: #8fa9cc; }
.arg, .const { fill: #e3efe6; } .out { fill: #f6ecdf; } .title { text-anchor: start; fill: #4a6a94; }
.arrow { fill: none; stroke: #9aa5b1; } .tip { fill: #9aa5b1; }
"""
_DARK = """
.page { fill: #14181d; } text { fill: #d9dee4; } .eqn { fill: #1f252c; stroke: #46505b; }
.call { fill: #1b232e; stroke: #48607f; } .arg, .const { fill: #1f3026; } .out { fill: #3a2e20; }
.title { fill: #8fb0dc; } .arrow { stroke: #5c6773; } .tip { fill: #5c6773; }
"""
_MARGIN = 24.0
_INSET = 12.0


class _Drawn(NamedTuple):
    parts: list[str]
    width: float
    height: float


def to_svg(jaxpr: Jaxpr | ClosedJaxpr, depth: int = 1) -> str:
    """A drawing of a program's graph, readable on light and on dark.

    Args:
      jaxpr: the program.
      depth: how many levels of jaxprs inside it are drawn, each within the box of its equation.

    Returns:
      The text of an SVG file; hovering over an arrow or a box shows types.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jaxpr.to_svg(xpr.make_jaxpr(jnp.sin)(1.0)).count("<rect")  # an argument, an equation, a result; the page
    4
    """
    drawn = _draw(Tables(require_jaxpr("to_svg", jaxpr)), 0, depth)
    width, height = drawn.width + 2 * _MARGIN, drawn.height + 2 * _MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    style = f"<style>{_LIGHT}@media (prefers-color-scheme: dark) {{{_DARK}}}</style>"
    page = f'<rect class="page" width="100%" height="100%"/><g transform="translate({_MARGIN:g} {_MARGIN:g})">'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', style, page, *drawn.parts, "</g>", "</svg>"])


def _draw(tables: Tables, number: int, depth: int) -> _Drawn:
    graph = graph_of(tables, number)
    inner = [[_draw(tables, each, depth - 1) for each in box.holds] if depth > 0 else [] for box in graph.boxes]
    sizes = [_size(box, drawings) for box, drawings in zip(graph.boxes, inner)]
    layout = layered([w for w, _ in sizes], [h for _, h in sizes], [(a.start, a.end) for a in graph.arrows])
    parts = [_arrow(tables, arrow, path) for arrow, path in zip(graph.arrows, layout.paths)]
    for box, (w, h), x, y, drawings in zip(graph.boxes, sizes, layout.x, layout.y, inner):
        group = f'<g transform="translate({x - w / 2:.1f} {y - h / 2:.1f})">'
        parts += [group, f"<title>{escape(_types(tables, number, box))}</title>", *_box(box, w, h, drawings), "</g>"]
    return _Drawn(parts, layout.width, layout.height)


def _size(box: Box, inner: list[_Drawn]) -> tuple[float, float]:
    if not inner:
        return box_width(box.text), BOX_HEIGHT
    across = sum([each.width + _INSET for each in inner]) + _INSET
    return max(across, box_width(box.text)), max([each.height for each in inner]) + BOX_HEIGHT + _INSET


def _box(box: Box, width: float, height: float, inner: list[_Drawn]) -> list[str]:
    kind = "call" if box.holds else box.kind
    radius = 4 if box.kind == "eqn" else BOX_HEIGHT / 2
    outline = f'<rect class="{kind}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>'
    if not inner:
        return [outline, f'<text x="{width / 2:.1f}" y="{height / 2:.1f}">{escape(box.text)}</text>']
    parts = [outline, f'<text class="title" x="{_INSET:g}" y="{BOX_HEIGHT / 2:g}">{escape(box.text)}</text>']
    left = _INSET
    for drawing in inner:
        parts += [f'<g transform="translate({left:.1f} {BOX_HEIGHT:g})">', *drawing.parts, "</g>"]
        left += drawing.width + _INSET
    return parts


def _types(tables: Tables, number: int, box: Box) -> str:
    constants, arguments, results, first, _ = tables.jaxprs[number]
    if box.kind == "eqn":
        return " ".join(map(tables.typed, tables.eqns[first + box.position][2]))
    return tables.typed({"const": constants, "arg": arguments, "out": results}[box.kind][box.position])


def _arrow(tables: Tables, arrow: Arrow, path: list[float]) -> str:
    x, y = path[:2]
    curve = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in zip(path[2::2], path[3::2]):
        half = (y + to_y) / 2
        curve.append(f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    tip = f'<path class="tip" d="M{x - 3:.1f} {y - 6:.1f}L{x + 3:.1f} {y - 6:.1f}L{x:.1f} {y:.1f}Z"/>'
    return f'<g><title>{escape(tables.typed(arrow.value))}</title><path class="arrow" d="{"".join(curve)}"/>{tip}</g>'
