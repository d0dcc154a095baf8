"""Docstrings of public functions: a summary, sections that name every parameter, and an example."""

import ast
import importlib
import inspect
import re
import textwrap

import pytest

from tests.test_structure import COMMANDS, FACES

MODULES = [
    *(name for name in FACES if name not in COMMANDS), "xpr.flatten_util", "xpr.image", "xpr.inspect", "xpr.ops",
    "xpr.scipy.cluster.vq", "xpr.scipy.fft", "xpr.scipy.integrate", "xpr.scipy.linalg", "xpr.scipy.ndimage",
    "xpr.scipy.optimize", "xpr.scipy.signal", "xpr.scipy.sparse.linalg", "xpr.scipy.special", "xpr.scipy.stats",
]  # fmt: skip

# Functions that lack a section, by the module that defines them: names separated by spaces. It should stay empty.
WITHOUT_SECTIONS: dict[str, str] = {}


def _functions(module):
    """The functions that a module shows, by name; of a module that is no package only those with its `__all__`."""
    default = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    if hasattr(module, "__path__"):
        default = dir(module)
    names = [name for name in getattr(module, "__all__", default) if not name.startswith("_")]
    values = {name: inspect.unwrap(getattr(module, name)) for name in names}
    return {n: f for n, f in values.items() if inspect.isfunction(f) and f.__module__.split(".")[0] == "xpr"}


FUNCTIONS = {
    f"{function.__module__}.{function.__name__}": function
    for module in MODULES
    for function in _functions(importlib.import_module(module)).values()
}


def _parameters(function):
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    signature = inspect.signature(function)
    return [stars.get(p.kind, "") + p.name for p in signature.parameters.values()]


def _section(doc, title):
    """The lines of a section in Google's style: its title stands after an empty line, and its lines are indented."""
    match = re.search(rf"\n\n{title}:\n((?:  .*\n)+)", doc + "\n")
    return match.group(1).splitlines() if match else []


def _raises(function):
    """Whether the function itself, and no function inside it, raises an error of its own."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return False
    pending = list(ast.iter_child_nodes(tree.body[0]))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Raise) and node.exc is not None:
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))
    return False


def problems(function):
    """What the docstring of a function lacks.

    >>> def f(x, y):
    ...     '''Adds.'''
    >>> problems(f)
    ['no example', 'Args: names [], and the parameters are [x, y]', 'no Returns:']
    """
    doc = inspect.getdoc(function) or ""
    summary = doc.split("\n\n")[0]
    lacking = []
    if "\n" in summary or not summary.endswith(".") or re.search(r"\. [A-Z]", summary):
        lacking.append(f"the summary is not one sentence on one line: {summary!r}")
    if ">>>" not in doc:
        lacking.append("no example")
    parameters = _parameters(function)
    if len(parameters) > 1:
        named = [m.group(1) for line in _section(doc, "Args") if (m := re.match(r"  (\*{0,2}\w+): \S", line))]
        if named != parameters:
            lacking.append(f"Args: names [{', '.join(named)}], and the parameters are [{', '.join(parameters)}]")
        if not _section(doc, "Returns"):
            lacking.append("no Returns:")
    if _raises(function) and not _section(doc, "Raises"):
        lacking.append("no Raises:")
    return lacking


def _without_sections():
    return {f"{module}.{name}" for module, names in WITHOUT_SECTIONS.items() for name in names.split()}


@pytest.mark.parametrize("module", sorted({function.__module__ for function in FUNCTIONS.values()}))
def test_docstrings_have_their_sections(module):
    lacking = {name: problems(f) for name, f in FUNCTIONS.items() if f.__module__ == module}
    complete = [name for name in _without_sections() & lacking.keys() if not lacking[name]]
    assert not complete, "they have all their sections: take them off WITHOUT_SECTIONS"
    assert not {name: found for name, found in lacking.items() if found and name not in _without_sections()}


def test_list_of_functions_without_sections_names_public_functions():
    assert _without_sections() <= FUNCTIONS.keys()


def test_lint_reports_what_is_missing():
    def documented(x, *rest, scale=1.0):
        """The sum of arrays, scaled.

        Args:
          x: array.
          *rest: more of them.
          scale: a factor.

        Returns:
          An array of the broadcast shape.

        Raises:
          ValueError: shapes differ.

        >>> documented(1, 2)
        3
        """
        raise ValueError

    assert problems(documented) == []
    doc = documented.__doc__

    def lacks(old, new=""):
        documented.__doc__ = doc.replace(old, new)
        return " ".join(problems(documented))

    assert "Args: names [x, scale]" in lacks("          *rest: more of them.\n")
    assert "no Returns:" in lacks("Returns:", "It returns")
    assert "no Raises:" in lacks("\n\n        Raises:", "\n        Raises:")
    assert "no example" in lacks(">>>")
    assert "not one sentence" in lacks("scaled.", "scaled. And more.")
