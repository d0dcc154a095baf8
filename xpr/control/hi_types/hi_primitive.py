"""HiPrimitive: an operation on values of types that users define, given by the methods of a class."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from xpr.core.hi_types import in_use
from xpr.core.primitive import Primitive, Unsupported
from xpr.transforms.batch import AxisData


def not_defined(operation: Any, method: str, use: str) -> NotImplementedError:
    """The error for an operation whose class lacks a method that it needs."""
    return NotImplementedError(
        f"{use} of the operation {operation} needs the method {method}, which its class {type(operation).__name__} "
        "does not define."
    )


class HiPrimitive:
    """An operation on values of types of one's own, to derive classes from: its rules are their methods.

    Args:
      name: its name, in texts of programs.

    >>> import xpr
    >>> from xpr.experimental.hijax import HiPrimitive
    >>> class Double(HiPrimitive):
    ...     def abstract_eval(self, aval): return aval, set()
    ...     def to_lojax(self, x): return 2 * x
    ...     def jvp(self, primals, tangents): return self.bind(*primals), self.bind(*tangents)
    ...     def transpose(self, ct, x): return [self.bind(ct)]
    >>> double_p = Double("double")
    >>> double_p.bind(3.0), xpr.grad(double_p.bind)(3.0)
    (6.0, Array(2., dtype=float32, weak_type=True))
    """

    multiple_results: ClassVar[bool] = False  # whether methods return a sequence of results, and not one

    def __init__(self, name: str):
        self.name = name
        self.operation = Primitive(
            name,
            abstract=self._abstract,
            reference=Unsupported("It is evaluated by to_lojax."),
            lower=Unsupported("It is lowered as what to_lojax does."),
            jvp=self._jvp,
            transpose=self._transpose,
            batch=self._batch,
            on_arrays=self._run,
            evaluate=self._run,
            effects=self._effects,
            multiple_results=self.multiple_results,
            call=True,  # nothing is remembered by its parameters
        )

    def __repr__(self) -> str:
        return self.name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies the operation, through whatever interpreter is current."""
        return self.operation.bind(*args, **params)

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Whether the operation is on values of users' types, which it always is; the name is JAX's."""
        return True

    # What subclasses define

    def abstract_eval(self, *arg_avals: Any, **params: Any) -> tuple[Any, Collection[Any]]:
        """The types of the results and the effects, from the types of the operands.

        A mutable operand has an `AvalQDD`, whose `mutable_qdd.update(state)` says how the operation changes its state.
        """
        raise not_defined(self, "abstract_eval", "Tracing")

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        """The results, from operands that are objects of the user's classes and arrays."""
        raise not_defined(self, "to_lojax", "Evaluation")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The results and their tangents; a tangent may be a `Zero`."""
        raise not_defined(self, "jvp", "A derivative")

    def transpose(self, out_ct: Any, *args: Any, **params: Any) -> Any:
        """A cotangent for each operand that `is_undefined_primal`, None for others, of an operation linear in those."""
        raise not_defined(self, "transpose", "Reverse mode")

    def batch(self, axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
        """The results of all rows, and how each is mapped, from operands that are mapped as `dims` say."""
        raise not_defined(self, "batch", "vmap")

    # The rules

    def _listed(self, results: Any) -> list[Any]:
        return list(results) if self.multiple_results else [results]

    def _abstract(self, avals: Sequence[Any], /, **params: Any) -> list[Any]:
        in_use()
        return self._listed(self.abstract_eval(*avals, **params)[0])

    def _effects(self, avals: Sequence[Any], /, **params: Any) -> Collection[Any]:
        unchanged = [aval.at_start for aval in avals]
        return self.abstract_eval(*unchanged, **params)[1]

    def _run(self, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        return self._listed(self.to_lojax(*args, **params))

    def _jvp(self, primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
        outs, out_tangents = self.jvp(tuple(primals), tuple(tangents), **params)
        return self._listed(outs), self._listed(out_tangents)

    def _transpose(self, cts: Sequence[Any], operands: Sequence[Any], /, **params: Any) -> list[Any]:
        return list(self.transpose(list(cts) if self.multiple_results else cts[0], *operands, **params))

    def _batch(self, size: int, values: Sequence[Any], dims: Sequence[Any], /, **params: Any) -> Any:
        outs, out_dims = self.batch(AxisData(None, size), tuple(values), tuple(dims), **params)
        return self._listed(outs), self._listed(out_dims)
