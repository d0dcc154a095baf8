"""What the content of a manifest may be: all of it is checked before anything is opened that it names.

A folder may come from an untrusted source. So no name leads out of it, no part of a file is read twice, and no more
memory is asked for than the files have bytes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from xpr.key_types import implementations
from xpr.storage.leaves import DTYPES
from xpr.storage.structure import leaves_of

DATA = "xpr-data-"
DATA_NAME = re.compile(re.escape(DATA) + "[0-9a-f]{16}")
_FILE_NAME = re.compile("[0-9]{1,20}-[0-9]{1,20}[.]safetensors")
_AXES = 63  # as many as NumPy has, but for one: see the types that files.py keeps as bytes
_BYTES = 2**63


class Damage(ValueError):
    """The error of a content that is damaged, with what is wrong."""


def check(content: Any) -> None:
    """Checks that a content is one that `save` could have written.

    Raises:
      Damage: it isn't.
      RecursionError: it is nested too deeply.
    """
    _need(isinstance(content, dict), "content", content)
    data, sizes, leaves = (
        _field(content, name, kind) for name, kind in (("data", str), ("files", dict), ("leaves", list))
    )
    _need(DATA_NAME.fullmatch(data), "data", data)
    for name, size in sizes.items():
        _need(_FILE_NAME.fullmatch(name), "the name of a file", name)
        _need(_is_count(size), f"the size of {name}", size)
    _check_tree(content.get("tree"), len(leaves))
    claimed = dict.fromkeys(sizes, 0)
    for number, path in leaves_of(content["tree"]):
        _check_leaf(path or "the array", leaves[number], claimed)
    for name, size in sizes.items():
        if claimed[name] > size:
            raise Damage(f"pieces of {claimed[name]:,} bytes are in {name}, which has {size:,}")


def _need(holds: object, what: str, actual: Any) -> None:
    if not holds:
        text = repr(actual)
        raise Damage(f"{what} is {text if len(text) <= 60 else text[:57] + '...'}")


def _field(record: dict[str, Any], name: str, kind: type) -> Any:
    _need(type(record.get(name)) is kind, name, record.get(name))
    return record[name]


def _is_count(x: Any) -> bool:
    return type(x) is int and 0 <= x < _BYTES


def _are_counts(x: Any) -> bool:
    return type(x) is list and all(map(_is_count, x))


# -- Leaves


def _check_leaf(what: str, record: Any, claimed: dict[str, int]) -> None:
    _need(isinstance(record, dict), what, record)
    if "array" in record:
        _check_array(what, record, claimed)
        return
    _need(len(record) == 1, what, record)
    ((kind, value),) = record.items()
    _need(kind in _NUMBERS and _NUMBERS[kind](value), what, record)


def _is_real(x: Any) -> bool:
    return type(x) is float or x in ("nan", "inf", "-inf")


_NUMBERS = {
    "int": lambda x: type(x) is int,
    "bool": lambda x: type(x) is bool,
    "str": lambda x: type(x) is str,
    "float": _is_real,
    "complex": lambda x: type(x) is list and len(x) == 2 and all(map(_is_real, x)),
}


def _check_array(what: str, record: dict[str, Any], claimed: dict[str, int]) -> None:
    dtype, shape, pieces = (
        _field(record, name, kind) for name, kind in (("dtype", str), ("shape", list), ("pieces", list))
    )
    _need(record["array"] in ("Array", "ndarray", "scalar"), f"the kind of {what}", record["array"])
    _need(dtype in DTYPES, f"the dtype of {what}", dtype)
    _need(record.get("weak", True) is True, f"weak of {what}", record.get("weak"))
    if "keys" in record:
        impl = implementations.get(record["keys"]) if type(record["keys"]) is str else None
        _need(impl is not None, f"the generator of {what}", record["keys"])
        inside = list(impl.key_shape)  # type: ignore[union-attr]  # it is not None
        are_words = (
            dtype == "uint32" and record["array"] == "Array" and shape[max(len(shape) - len(inside), 0) :] == inside
        )
        _need(are_words, f"the words of {what}", record)
    itemsize = DTYPES[dtype].itemsize
    is_shape = _are_counts(shape) and len(shape) <= _AXES and math.prod(n or 1 for n in shape) * itemsize < _BYTES
    _need(is_shape and (record["array"] != "scalar" or not shape), f"the shape of {what}", shape)
    for piece in pieces:
        _need(type(piece) is list and len(piece) == 4, f"a piece of {what}", piece)
        file, *region, crc = piece
        _need(type(file) is str and file in claimed, f"the file of a piece of {what}", file)
        _need(all(_are_counts(x) and len(x) == len(shape) for x in region), f"the region of a piece of {what}", region)
        _need(_is_count(crc), f"the checksum of a piece of {what}", crc)
        claimed[file] += math.prod(region[1]) * itemsize
    if not _is_grid([(start, sizes) for _, start, sizes, _ in pieces], shape):
        raise Damage(f"pieces of {what} are missing, or overlap")


def _is_grid(regions: Sequence[tuple[list[int], list[int]]], shape: Sequence[int]) -> bool:
    """Whether regions are the cells of a grid over an array, each once: equal shards of one array are."""
    starts = [sorted({start[axis] for start, _ in regions}) for axis in range(len(shape))]
    sizes = [dict(zip(bounds, _differences([*bounds, n]))) for bounds, n in zip(starts, shape)]
    return (
        0 < len(regions) == len({tuple(start) for start, _ in regions}) == math.prod(map(len, starts))
        and all(bounds[0] == 0 for bounds in starts)
        and all([of[a] for of, a in zip(sizes, start)] == size for start, size in regions)
    )


def _differences(bounds: Sequence[int]) -> Iterator[int]:
    return (b - a for a, b in itertools.pairwise(bounds))


# -- The tree


def _check_tree(tree: Any, leaves: int) -> None:
    numbers: list[int] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if type(node) is int:
            numbers.append(node)
        elif node is not None:
            _check_node(node)
            pending += node["children"]
    if sorted(numbers) != list(range(leaves)):
        raise Damage(f"the tree does not have each of {leaves} leaves once")


def _check_node(node: Any) -> None:
    _need(isinstance(node, dict), "a node of the tree", node)
    kind, children = _field(node, "kind", str), _field(node, "children", list)
    match kind:
        case "list" | "tuple":
            pass
        case "dict" | "OrderedDict":
            keys = _field(node, "keys", list)
            _need(len(keys) == len(children) and all(map(_is_key, keys)), f"the keys of a {kind}", keys)
        case "deque":
            longest = node.get("maxlen", -1)
            fits = longest is None or (_is_count(longest) and longest >= len(children))
            _need(fits, "the maxlen of a deque", longest)
        case "class":
            steps = _field(node, "steps", list)
            _need(all(type(step) is str for step in steps), "the steps of a class", steps)
            _need(len(steps) == len(children), "the steps of a class", steps)
            _field(node, "name", str)
        case _:
            _need(False, "the kind of a node", kind)


def _is_key(key: Any) -> bool:
    if not isinstance(key, dict):
        return key is None or type(key) in (bool, int, str)
    if len(key) != 1:
        return False
    ((kind, value),) = key.items()
    return (
        _is_real(value) if kind == "float"
        else type(value) is list and all(map(_is_key, value)) if kind == "tuple"
        else kind == "text" and type(value) is str
    )  # fmt: skip
