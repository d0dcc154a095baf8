"""The import hook behind `xpr.as_jax`: finds `jax` and its submodules, each with the names of a module of xpr.

`jax.x.y` has the names of `xpr.x.y`, and `jax._src...`, which is private but which libraries import all the same, has
those that `private.py` lists. `importlib.metadata` finds a distribution `jax`, whether the real one is installed
or not.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import xpr
from xpr.alias import missing, private
from xpr.alias.private import VERSION


class AliasModule(ModuleType):
    """A module under JAX's name, with the names of one or several sources, of which earlier ones take precedence."""

    def __init__(self, name: str, sources: Sequence[Any]):
        super().__init__(name, sources[0].__doc__ if sources else None)
        self.__dict__["_sources"] = sources
        self.__path__: list[str] = []
        self.__file__ = getattr(sources[0], "__file__", None) if sources else None
        for source in reversed([x for x in sources if not isinstance(x, type)]):
            names = vars(source).items()
            self.__dict__.update({k: v for k, v in names if not k.startswith("__") and not isinstance(v, ModuleType)})
            if hasattr(source, "__all__"):
                self.__all__ = list(source.__all__)

    def __getattr__(self, name: str) -> Any:
        value = self._lookup(name)
        self.__dict__[name] = value
        return value

    def __reduce__(self) -> Any:  # cloudpickle, which ray and dask use, writes modules of Python's own class alone
        return importlib.import_module, (self.__name__,)

    def _lookup(self, name: str) -> Any:
        modules = []
        for source in self._sources:
            value = getattr(source, name, self)
            if value is not self and (not isinstance(value, ModuleType) or callable(value)):
                return value
            if value is not self and _is_public(source, name):
                modules.append(value)
        if name.startswith("__"):
            raise AttributeError(name)
        if _sources(whole := f"{self.__name__}.{name}") is not None:
            return importlib.import_module(whole)
        if modules:
            return modules[0]
        return missing.absent(self.__name__, name, sys._getframe(2))

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *(name for source in self._sources for name in dir(source))} - {"_sources"})


def _is_public(source: Any, name: str) -> bool:
    """Whether a module that a source has under a name is one of its names, rather than imported for its own use."""
    return name in getattr(source, "__all__", ()) or name in getattr(source, "_FUNCTIONS", ())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The first of Python's finders: it finds `jax`, its submodules, and its distribution."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != "jax":
            return None
        if _sources(name) is None:
            if not missing.recording:
                return None
            missing.record(name, sys._getframe(1))
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return AliasModule(spec.name, _sources(spec.name) or [])

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "jax":
            vars(module).update(vars(private.version), __xpr__=xpr.__version__)
            for name in private.LOADED:
                importlib.import_module(name)

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        if getattr(context, "name", None) in (None, "jax"):
            yield _Distribution()


class _Distribution(importlib.metadata.Distribution):
    """The metadata of `jax` for `importlib.metadata`."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: jax\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"jax is xpr here, and has no file {path}.")


def _sources(name: str) -> list[Any] | None:
    """The objects whose names the module `jax...` has; None if there is no such module."""
    if name in private.MODULES:
        return [_module(x) if isinstance(x, str) else x for x in private.MODULES[name]]
    for prefix in private.BINDINGS:
        if name.startswith(prefix):
            return None if (binding := _module("jaxlib.mlir." + name.removeprefix(prefix))) is None else [binding]
    if name.startswith("jax._src"):
        return None
    value: Any = _module("xpr" + name.removeprefix("jax"))
    return None if value is None else [value]


def _module(path: str) -> ModuleType | None:
    """The module; None if there is none of that name."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not path.startswith(error.name):
            raise
        return None


finder = _Finder()


def install() -> None:
    """Makes `import jax` import xpr, in this process, from now on.

    Raises:
      ImportError: the real jax is imported already.
    """
    if finder in sys.meta_path:
        return
    real = sys.modules.get("jax")
    if real is not None:
        raise ImportError(
            f"xpr can't take the place of jax: jax {getattr(real, '__version__', '')} is imported already, from "
            f"{getattr(real, '__file__', None)}. Import xpr.as_jax before whatever imports jax, or run the program "
            "with `python -m xpr.as_jax script.py`."
        )
    private.adapt()
    sys.meta_path.insert(0, finder)
    importlib.invalidate_caches()
