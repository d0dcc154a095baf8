"""Shardings of types as text: `f32[8@x,4]`, in jaxprs that name the mesh: `{ lambda[x=4 y=2:Auto] ; a:f32[8@x,4]. let`.

A jaxpr inside of another one names it again only where it is a different one.
"""

from __future__ import annotations

import re
from typing import Any

from xpr.core.avals import ShapedArray
from xpr.core.explicit import ExplicitSharding
from xpr.core.jaxpr import Jaxpr
from xpr.core.meshes import AbstractMesh, AxisType

Sums = tuple[tuple[str, ...], tuple[str, ...]]  # unreduced and reduced axes
HOST = "<host>"  # in a type, of arrays in the memory of the host: f32<host>[8]


def mesh_text(mesh: AbstractMesh) -> str:
    """The axes of a mesh, with the types of those that are not Explicit.

    >>> from xpr.sharding import AbstractMesh, AxisType
    >>> mesh_text(AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto)))
    'x=4 y=2:Auto'
    """
    kinds = ["" if kind is AxisType.Explicit else f":{kind.name}" for kind in mesh.axis_types]
    return " ".join([f"{name}={size}{kind}" for (name, size), kind in zip(mesh.shape_tuple, kinds)])


def mesh_of_text(text: str) -> AbstractMesh:
    """The mesh of such a text.

    Raises:
      ValueError: it is none.
    """
    names, sizes, kinds = [], [], []
    for word in text.split():
        name, equals, size_and_kind = word.partition("=")
        size, _, kind = size_and_kind.partition(":")
        if not equals or not size.isdigit() or kind not in ("", *AxisType.__members__):
            raise ValueError(f"{word!r} is no axis of a mesh, such as x=4 or y=2:Auto.")
        names.append(name)
        sizes.append(int(size))
        kinds.append(AxisType[kind or "Explicit"])
    return AbstractMesh(tuple(sizes), tuple(names), tuple(kinds))


def mesh_of_jaxpr(jaxpr: Jaxpr) -> AbstractMesh | None:
    """The mesh that types of a jaxpr name, apart from those of jaxprs inside it; None where they name none."""
    for v in (*jaxpr.constvars, *jaxpr.invars, *[v for eqn in jaxpr.eqns for v in eqn.outvars]):
        if v.aval.explicit is not None:
            return v.aval.explicit.mesh
    return None


def partitioned(aval: Any, parts: list[str], mesh: AbstractMesh, sums: Sums = ((), ())) -> Any:
    """The type `aval`, partitioned as the texts of its axes say: "", "x", "(x,y)", or "?" while it is undecided.

    `sums` are the axes over which it is unreduced, and those over which it is reduced.

    Raises:
      ValueError: the mesh has no such axis.
    """
    if "?" in parts:
        return aval.with_explicit(ExplicitSharding(mesh, None))
    named: list[Any] = []
    parts = parts if aval.ndim else []
    for part in [*parts, *map("({})".format, map(",".join, sums))]:
        names = tuple([name for name in part.strip("()").split(",") if name])
        for name in names:
            if name not in mesh.axis_names:
                raise ValueError(f"a type names the axis {name!r}, and the mesh is [{mesh_text(mesh)}].")
        named.append(None if not names else names if part.startswith("(") else names[0])
    return aval.with_explicit(ExplicitSharding(mesh, tuple(named[: len(parts)]), *map(frozenset, sums)))


_SUMS = re.compile(r"\]\{((?:[UR]:[^{}=]*)+)\}")


def split_sums(text: str) -> tuple[str, Sums]:
    """A printed type without and with its sums alone: `f32[8]{U:x, R:(y,z)}` is `f32[8]` and (("x",), ("y", "z"))."""
    found = _SUMS.search(text)
    if not found:
        return text, ((), ())
    named = dict(re.findall(r"([UR]):\(?([^()]*?)\)?(?:, |$)", found[1]))
    unreduced, reduced = (tuple(named[letter].split(",")) if letter in named else () for letter in "UR")
    return text.replace(found[0], "]"), (unreduced, reduced)


def split_dimensions(shape: str) -> tuple[str, list[str]]:
    """The dimensions of a printed type without and with their parts alone: `8@x,4` is `8,4` and ["x", ""]."""
    sizes: list[str] = []
    parts: list[str] = []
    depth, word = 0, ""
    for c in f"{shape},":
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            size, _, part = word.partition("@")
            sizes.append(size)
            parts.append(part)
            word = ""
        else:
            word += c
    return ",".join(sizes), parts


def type_text(aval: ShapedArray) -> str:
    """A type as files hold it, with its mesh: `f32[8@x,4]{x=4 y=2}`."""
    text = aval.str_short()
    return text if aval.explicit is None else f"{text}{{{mesh_text(aval.explicit.mesh)}}}"


def without_parts(text: str) -> tuple[str, list[str], AbstractMesh | None]:
    """A type that `type_text` wrote as text without parts, these, and the mesh."""
    text, _, mesh = text.rstrip("}").partition("{")
    dtype, _, shape = text.rstrip("]").partition("[")
    sizes, parts = split_dimensions(shape)
    return f"{dtype}[{sizes}]", parts, mesh_of_text(mesh) if mesh else None
