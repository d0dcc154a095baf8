"""Colocated functions: copies of a Python function, one for each signature it is called with, which run at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xpr import tree
from xpr.api.make_jaxpr import ShapeDtypeStruct
from xpr.backend.array import Array
from xpr.backend.devices import process_index
from xpr.core.avals import describe
from xpr.core.interpreter import Tracer
from xpr.experimental.colocated_python.serialization import deserialize, serialize
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import function_name, named_like
from xpr.tree_differences import mismatch_message

__all__ = ["colocated_python"]


def colocated_python(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs on the host of the devices of its arguments.

    What runs there is a copy, made by cloudpickle at the first call with arguments of their structure, types and
    shardings: of a function that can't be imported, such as one within another function, with the values that the
    variables it reads have then. What it does to those is not seen here; modules that it reads are those of the host.
    Calls run at once, in this thread, and what the function raises comes up at the call.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.

    Returns:
      A function with a method `specialize(in_specs=None, out_specs_fn=None, devices=None)`, which returns one of which
      more is known:

      * `in_specs`: the positional and keyword arguments that it takes, a pair of a tuple and a dict, with
        `ShapeDtypeStruct`s for arrays.
      * `out_specs_fn`: a function of arguments in which `ShapeDtypeStruct`s stand for arrays to those of the results.
        It is called here, and results must have the structure, shapes and dtypes that it says.
      * `devices`: the devices on whose host it runs, without arguments, or with arguments on several devices.

    Raises:
      ModuleNotFoundError: when called, as are the others: cloudpickle is not installed.
      TypeError: the function reads something that can't be copied, such as a lock.
      ValueError: an argument or a result is no array, arguments are on different devices or not those of `in_specs`,
        results are not those of `out_specs_fn`, or there is neither an argument nor `devices`.
      NotImplementedError: a device is of another process.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.colocated_python import colocated_python
    >>> add_one = colocated_python(lambda x: x + 1)
    >>> add_one(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    >>> add_one.specialize(out_specs_fn=lambda x: x)(jnp.float32(2))
    Array(3., dtype=float32)
    """
    return as_function(Colocated(fun), fun)


class Specialization(NamedTuple):
    """What is known of a colocated function before it is called; None where nothing is."""

    in_specs: Any = None
    out_specs_fn: Callable[..., Any] | None = None
    devices: tuple[Any, ...] | None = None


_UNSPECIALIZED = Specialization()


class _Copy(NamedTuple):
    """The function that runs on the host, and the specs of its results; None where nothing is known of them."""

    fun: Callable[..., Any]
    out_specs: Any


class Colocated:
    """A function with what is known of it, and its copies by the structure, types and shardings of arguments.

    In a copy of another function, which calls this one, it has no copies yet.
    """

    def __init__(self, fun: Callable[..., Any], known: Specialization = _UNSPECIALIZED, name: str = ""):
        self.fun, self.known, self.name = fun, known, name or function_name(fun)
        self.copies: dict[Any, _Copy] = {}

    def __reduce__(self) -> Any:
        return Colocated, (self.fun, self.known, self.name)

    def specialized(self, more: Specialization) -> Colocated:
        """The function, of which more is known.

        Raises:
          TypeError: what stands for a device is none.
          ValueError: something is known already, or there are no devices.
        """
        for field, known, given in zip(Specialization._fields, self.known, more):
            if known is not None and given is not None:
                raise ValueError(
                    f"{field} already specified: {self.name} was specialized by it, and {field}={given!r} is given "
                    "again. Specialize the function that it was made of."
                )
        if more.devices == ():
            raise ValueError(f"specialize: devices is empty, and {self.name} runs on the host of one at least.")
        for device in more.devices or ():
            if not hasattr(device, "process_index"):
                raise TypeError(f"specialize: {describe(device)} is no device. Devices are listed by xpr.devices().")
        both = [known if given is None else given for known, given in zip(self.known, more)]
        return Colocated(self.fun, Specialization(*both), self.name)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the copy for these arguments."""
        leaves, structure = tree.flatten((args, kwargs))
        _check_arrays(leaves, f"input of {self.name}")
        if self.known.in_specs is not None:
            _check_specs(self.known.in_specs, (args, kwargs), f"{self.name} takes what its in_specs say")
        self._check_devices(leaves)
        key = (structure, *[(x.aval, x.sharding) for x in leaves])
        copy = self.copies.get(key) or self.copies.setdefault(key, self._copy(args, kwargs))
        results = copy.fun(*args, **kwargs)
        _check_arrays(tree.leaves(results), f"output of {self.name}")
        if self.known.out_specs_fn is not None:
            _check_specs(copy.out_specs, results, f"{self.name} returns what its out_specs_fn says")
        return results

    def _copy(self, args: Any, kwargs: Any) -> _Copy:
        out_specs = None
        if self.known.out_specs_fn is not None:
            args, kwargs = tree.map(ShapeDtypeStruct.like, (args, kwargs))
            out_specs = self.known.out_specs_fn(*args, **kwargs)
        try:
            return _Copy(deserialize(serialize(self.fun)), out_specs)
        except Exception as error:
            error.add_note(
                f"{self.name} is copied to the host of its devices, with all that it reads but modules. What can't be "
                "copied is made by the function itself, or stands in a module that it imports."
            )
            raise

    def _check_devices(self, leaves: Sequence[Array]) -> None:
        lists = {x.sharding.devices for x in leaves}
        if self.known.devices is None:
            self._check_one_list(lists)
        devices = {*(self.known.devices or ()), *[device for listed in lists for device in listed]}
        remote = {device for device in devices if device.process_index != process_index()}
        if remote:
            raise NotImplementedError(f"colocated_python: {self.name} would run on other hosts, those of {remote}.")

    def _check_one_list(self, lists: set[Any]) -> None:
        if not lists:
            raise ValueError(
                "No devices found. colocated_python function without input arguments must be first specialized with "
                f"devices: {self.name}.specialize(devices=...)."
            )
        if len(lists) > 1:
            raise ValueError(
                "All arguments must use the same device list, but got multiple device lists: those of the arguments of "
                f"{self.name} are {', '.join(sorted(map(str, lists)))}. Move them to the same devices, or name all by "
                f"{self.name}.specialize(devices=...)."
            )


def as_function(colocated: Colocated, like: Callable[..., Any]) -> Callable[..., Any]:
    """A colocated function as a function, with the name, the documentation and the signature of another."""
    function = named_like(boundary(colocated.call), like)

    def specialize(
        in_specs: Any = None, out_specs_fn: Callable[..., Any] | None = None, devices: Sequence[Any] | None = None
    ) -> Callable[..., Any]:
        more = Specialization(in_specs, out_specs_fn, None if devices is None else tuple(devices))
        return as_function(colocated.specialized(more), like)

    function.specialize = specialize
    return function


def _check_arrays(leaves: Sequence[Any], what: str) -> None:
    for x in leaves:
        if isinstance(x, Tracer):
            raise ValueError(
                f"colocated_python: an {what} is traced, {x.aval.str_short()}, and is on no device. Call it outside of "
                "transformed functions, or use pure_callback."
            )
        if type(x) is not Array:
            raise ValueError(
                f"colocated_python only supports jax.Array as input and output, but got {type(x)}: an {what} is "
                f"{describe(x)}. Put it on a device by device_put."
            )


def _check_specs(specs: Any, values: Any, what: str) -> None:
    """Raises ValueError where arrays have another structure than specs, or one has another shape or dtype."""
    what = f"colocated_python: {what}"
    tree.check_same_structure(specs, values, what)
    lines = [
        f"  {tree.keystr(path) or 'the array'}   expected {spec.aval.plain.str_short()}, got {x.aval.plain.str_short()}"
        for (path, spec), x in zip(tree.leaves_with_path(specs), tree.leaves(values))
        if (spec.shape, spec.dtype) != (x.shape, x.dtype)
    ]
    if lines:
        raise ValueError(mismatch_message(what, lines))
