"""Functions for neural networks: activations, softmax and related functions, attention; initializers of weights."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from xpr.nn.activations import *
from xpr.nn.attention import *
from xpr.nn.normalizing import *
from xpr.nn.scaled import *

if _TYPE_CHECKING:
    from xpr.nn import initializers as initializers


def __getattr__(name: str) -> _Any:
    if name == "initializers":  # which load all of xpr.random
        return _importlib.import_module("xpr.nn.initializers")
    raise AttributeError(f"module 'xpr.nn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "initializers"]


__all__ = [name for name in __dir__() if not name.startswith("_")]
