"""NumPy's functions on xpr's arrays: promotion, broadcasting, and every name as in NumPy."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from xpr.numpy import methods as methods
from xpr.numpy.argminmax import *
from xpr.numpy.arithmetic import *
from xpr.numpy.bits_and_floats import *
from xpr.numpy.bitwise import *
from xpr.numpy.calculus import *
from xpr.numpy.comparisons import *
from xpr.numpy.complex_numbers import *
from xpr.numpy.concatenation import *
from xpr.numpy.contractions import *
from xpr.numpy.counting import *
from xpr.numpy.creation import *
from xpr.numpy.cumulative import *
from xpr.numpy.division import *
from xpr.numpy.einstein import *
from xpr.numpy.equality import *
from xpr.numpy.exponentials import *
from xpr.numpy.flip_roll_tile import *
from xpr.numpy.indexing import masked_calls as _masked_calls  # which adds rules to numpy/indexing/masked.py
from xpr.numpy.indexing.grids import *
from xpr.numpy.indexing.nonzero import *
from xpr.numpy.indexing.take import *
from xpr.numpy.io import *
from xpr.numpy.mapping import *
from xpr.numpy.matrices import *
from xpr.numpy.namespace_info import __array_api_version__ as __array_api_version__
from xpr.numpy.namespace_info import __array_namespace_info__ as __array_namespace_info__
from xpr.numpy.nan_reductions import *
from xpr.numpy.padding import *
from xpr.numpy.powers import *
from xpr.numpy.predicates import *
from xpr.numpy.quantiles import *
from xpr.numpy.ranges import *
from xpr.numpy.reductions import *
from xpr.numpy.reshaping import *
from xpr.numpy.rounding import *
from xpr.numpy.sorting import *
from xpr.numpy.statistics import *
from xpr.numpy.trigonometric import *
from xpr.numpy.types import *
from xpr.numpy.ufunc_class import *
from xpr.numpy.ufuncs import *
from xpr.numpy.where_select import *

if _TYPE_CHECKING:
    from xpr.numpy import fft as fft
    from xpr.numpy import linalg as linalg
    from xpr.numpy.convolutions import *
    from xpr.numpy.divisors import *
    from xpr.numpy.fitting import poly as poly
    from xpr.numpy.fitting import polyfit as polyfit
    from xpr.numpy.fitting import roots as roots
    from xpr.numpy.polynomials import *
    from xpr.numpy.sets import *
    from xpr.numpy.window_functions import *

# What most programs don't need: modules, and functions by the module that they are in.
_MODULES = ("fft", "linalg")
_MODULE_OF = {
    name: module
    for module, names in {
        "convolutions": ("convolve", "correlate"),
        "divisors": ("gcd", "lcm"),
        "fitting": ("poly", "polyfit", "roots"),
        "polynomials": ("polyadd", "polyder", "polydiv", "polyint", "polymul", "polysub", "polyval"),
        "sets": (
            "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
            "unique_inverse", "unique_values",
        ),
        "window_functions": ("bartlett", "blackman", "hamming", "hanning", "i0", "kaiser"),
    }.items()
    for name in names
}  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _importlib.import_module(f"xpr.numpy.{name}")
    if name in _MODULE_OF:
        value = globals()[name] = getattr(_importlib.import_module(f"xpr.numpy.{_MODULE_OF[name]}"), name)
        return value
    raise AttributeError(f"module 'xpr.numpy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_MODULES, *_MODULE_OF]


__all__ = [name for name in __dir__() if not name.startswith("_")]
