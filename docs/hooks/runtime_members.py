"""A Griffe extension: members that only the running library has, functions made by builders and names loaded late.

Griffe reads source, where `sin = unary(...)` is an assignment, and what a module's `__getattr__` loads is not there.
"""

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))

from public_names import FACES, as_markdown, is_documented_alone, public_names


class RuntimeMembers(griffe.Extension):
    """Completes the modules of the reference by what they have when they are imported."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Called once, when all source is read."""
        for face in FACES:
            module = importlib.import_module(face)
            members = pkg if face == pkg.path else pkg[face.removeprefix(f"{pkg.path}.")]
            for name in public_names(module):
                value = getattr(module, name)
                if is_documented_alone(value) and not _is_read(members, name):
                    members.members.pop(name, None)
                    members.set_member(name, _alias(pkg, name, value) or _made(name, value))
                if inspect.isclass(value):
                    _add_installed(members.members[name], value)
        _for_markdown(pkg)


def _is_read(members: griffe.Module, name: str) -> bool:
    """Whether the source has the member as a function or a class."""
    try:
        member = members.members[name]
        return (member.final_target if member.is_alias else member).kind in (griffe.Kind.FUNCTION, griffe.Kind.CLASS)
    except (KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
        return False


def _alias(pkg: griffe.Module, name: str, value: Any) -> griffe.Alias | None:
    """An alias of the function or class where the source defines it; None where it doesn't."""
    path = f"{value.__module__}.{value.__qualname__}"
    try:
        target = pkg[path.removeprefix(f"{pkg.path}.")]
        return griffe.Alias(name, target=path) if target.kind in (griffe.Kind.FUNCTION, griffe.Kind.CLASS) else None
    except KeyError:
        return None


def _made(name: str, value: Any) -> griffe.Function | griffe.Class:
    """An entry of what the running library says: signature and docstring."""
    docstring = griffe.Docstring(inspect.getdoc(value) or "", parser="google")
    if inspect.isclass(value):
        return griffe.Class(name, docstring=docstring, analysis="dynamic")
    signature = inspect.signature(value)
    parameters = [
        griffe.Parameter(
            parameter.name,
            annotation=_text(parameter.annotation),
            kind=getattr(griffe.ParameterKind, parameter.kind.name.lower()),
            default=None if parameter.default is parameter.empty else repr(parameter.default),
        )
        for parameter in signature.parameters.values()
    ]
    returns = _text(signature.return_annotation)
    return griffe.Function(
        name, parameters=griffe.Parameters(*parameters), returns=returns, docstring=docstring, analysis="dynamic"
    )


def _add_installed(entry: griffe.Object | griffe.Alias, value: type) -> None:
    """Adds the methods and properties that were given to a class after its body, as those of arrays are."""
    target = entry.final_target if entry.is_alias else entry
    for name, member in vars(value).items():
        if name.startswith("_") or name in target.members or not inspect.getdoc(member):
            continue
        if inspect.isfunction(member):
            target.set_member(name, _made(name, member))
        elif isinstance(member, property):
            docstring = griffe.Docstring(inspect.getdoc(member) or "", parser="google")
            target.set_member(name, griffe.Attribute(name, docstring=docstring, analysis="dynamic"))


def _text(annotation: Any) -> str | None:
    if annotation is inspect.Parameter.empty:
        return None
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _for_markdown(members: griffe.Object) -> None:
    """Prepares all docstrings below."""
    if members.docstring:
        members.docstring.value = as_markdown(members.docstring.value)
    for member in members.members.values():
        if not member.is_alias:
            _for_markdown(member)
