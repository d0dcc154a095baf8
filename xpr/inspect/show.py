"""show : program -> a page. One HTML file, for a browser or a notebook, that needs no network.

The page holds the program as tables (tables.py), the layout of its graph (graph.py, graph_layout.py), the differences
of two programs (compare.py), and the scripts in page/, which write and draw only the rows and boxes in sight.
"""

from __future__ import annotations

import functools
import json
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from xpr.api.make_jaxpr import make_jaxpr
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, subjaxprs
from xpr.inspect.compare import CHANGED, SAME, Comparison
from xpr.inspect.graph import box_width, graph_of, layout_of
from xpr.inspect.tables import Tables

Program = Jaxpr | ClosedJaxpr

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("model.js", "text.js", "graph.js", "main.js")
NOTEBOOK_HEIGHT = 520  # pixels
NOTEBOOK_EQUATIONS = 5000  # programs of more are shown in notebooks as text, unless asked for by `show`


class Page:
    """A page that shows one program, or two side by side; a notebook shows it where it is the value of a cell.

    >>> import xpr
    >>> page = xpr.jaxpr.show(lambda x: x * x)(3.0)
    >>> page
    <page: <lambda>, 1 equation>
    >>> page.save("square.html")  # doctest: +SKIP
    PosixPath('square.html')
    """

    def __init__(self, programs: Sequence[Program], labels: Sequence[str], seconds: dict[int, float] | None = None):
        self.jaxprs = [p.jaxpr if isinstance(p, ClosedJaxpr) else p for p in programs]
        self.labels = list(labels)
        self.seconds = seconds  # the time of equations, by their `id`, where it was measured

    @functools.cached_property
    def html(self) -> str:
        """The text of the page."""
        data = json.dumps(self.data(), separators=(",", ":")).replace("<", "\\u003c")
        parts = {
            "{{title}}": escape(" → ".join(self.labels)),
            "{{style}}": (PAGE / "style.css").read_text("utf-8"),
            "{{script}}": "\n".join([(PAGE / name).read_text("utf-8") for name in SCRIPTS]),
            "{{data}}": data,
        }
        text = (PAGE / "page.html").read_text("utf-8")
        for mark, part in parts.items():
            text = text.replace(mark, part, 1)
        return text

    def save(self, path: str | Path) -> Path:
        """Writes the page to a file.

        Raises:
          OSError: it can't be written.
        """
        target = Path(path)
        target.write_text(self.html, "utf-8")
        return target

    def open(self) -> Path:
        """Writes the page to a temporary file and shows it in the browser; gives the file's path."""
        with tempfile.NamedTemporaryFile(prefix="xpr-", suffix=".html", delete=False) as file:
            path = self.save(file.name)
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        style = f"width:100%;height:{NOTEBOOK_HEIGHT}px;border:1px solid #8884;border-radius:6px"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        counts = [f"{len(j.eqns)} equation{'s' * (len(j.eqns) != 1)}" for j in self.jaxprs]
        return f"<page: {'; '.join([f'{label}, {count}' for label, count in zip(self.labels, counts)])}>"

    def data(self) -> dict[str, Any]:
        """What the page's script reads, as it is written in JSON."""
        tables = [Tables(jaxpr, self.seconds) for jaxpr in self.jaxprs]
        programs = [
            {"label": label, **each.as_data(), "graphs": [_graph(each, n) for n in range(len(each.jaxprs))]}
            for label, each in zip(self.labels, tables)
        ]
        pairs = _changes(*tables) if len(tables) == 2 else []
        return {"title": " → ".join(self.labels), "programs": programs, "pairs": pairs}


def _graph(tables: Tables, number: int) -> dict[str, Any]:
    graph = graph_of(tables, number)
    layout = layout_of(graph)
    boxes = [
        [box.kind, box.position, box.text, round(x), round(y), box_width(box.text), row]
        for box, x, y, row in zip(graph.boxes, layout.x, layout.y, layout.row)
    ]
    arrows = [[start, end, value, *map(round, path)] for (start, end, value), path in zip(graph.arrows, layout.paths)]
    return {"boxes": boxes, "arrows": arrows, "width": round(layout.width), "height": round(layout.height)}


def _changes(old: Tables, new: Tables) -> list[Any]:
    """For each pair of corresponding jaxprs: their numbers, and the rows of both in one list."""
    comparison = Comparison()
    pending, pairs = [(old.root, new.root)], []
    seen = {(id(old.root), id(new.root))}
    while pending:
        a, b = pending.pop()
        rows = comparison.rows(a, b)
        pairs.append([old.number_of(a), new.number_of(b), rows])
        for i, j, status in rows:
            if status in (SAME, CHANGED):
                for pair in _inner_pairs(a.eqns[i], b.eqns[j]):
                    if (id(pair[0]), id(pair[1])) not in seen:
                        seen.add((id(pair[0]), id(pair[1])))
                        pending.append(pair)
    return pairs


def _inner_pairs(before: JaxprEqn, after: JaxprEqn) -> list[tuple[Jaxpr, Jaxpr]]:
    return list(zip(subjaxprs(before), subjaxprs(after)))


def show(
    program: Program | Callable[..., Any],
    other: Program | Callable[..., Any] | None = None,
    *,
    labels: Sequence[str] | None = None,
) -> Any:
    """A page that shows a program as text and as a graph; or two programs, with their differences marked.

    Args:
      program: a jaxpr, or a function to be traced.
      other: a second program of the same kind, such as the result of a pass, or the gradient; None for none.
      labels: the names of the programs; None for the names of the functions where these differ.

    Returns:
      For jaxprs a `Page`; for functions, a function of their arguments (arrays, or anything with a shape and a dtype)
      that returns one. `.save(path)` writes it, `.open()` shows it in the browser, a notebook shows it by itself.

    Raises:
      TypeError: one is a jaxpr and the other one a function, or neither.
      ValueError: there are more programs than labels, or fewer.

    >>> import xpr
    >>> f = lambda x: x * x
    >>> xpr.jaxpr.show(f, xpr.grad(f))(3.0)  # doctest: +ELLIPSIS
    <page: before, 1 equation; after, ... equations>
    """
    subjects: list[Any] = [program] if other is None else [program, other]
    named = list(labels) if labels else _labels(subjects)
    if len(named) != len(subjects):
        raise ValueError(f"show: {len(subjects)} programs and {len(named)} labels.")
    if all(isinstance(each, (Jaxpr, ClosedJaxpr)) for each in subjects):
        return Page(subjects, named)
    if not all(callable(each) for each in subjects):
        kinds = " and ".join(type(each).__name__ for each in subjects)
        raise TypeError(f"show takes jaxprs or functions, two of one kind where there are two, and got {kinds}.")

    def traced(*args: Any, **kwargs: Any) -> Page:
        return Page([make_jaxpr(each)(*args, **kwargs) for each in subjects], named)

    return traced


def _labels(subjects: Sequence[Any]) -> list[str]:
    names = [str(getattr(each, "__name__", "jaxpr")) for each in subjects]
    return names if len(set(names)) == len(names) else ["before", "after"]


def _notebook_html(program: Any) -> str | None:
    """The display of a jaxpr in notebooks: the page, or only the text of a large one."""
    page = show(program)
    return page._repr_html_() if len(page.jaxprs[0].eqns) <= NOTEBOOK_EQUATIONS else None


Jaxpr._repr_html_ = ClosedJaxpr._repr_html_ = _notebook_html  # type: ignore[attr-defined]
