"""Every exception xpr raises of its own, drawn as a tree.

    XprError
    ├── TracerError                          (TypeError) a traced value was used where only a concrete one will do
    │   ├── ConcretizationTypeError
    │   │   ├── TracerBoolConversionError
    │   │   ├── TracerIntegerConversionError
    │   │   ├── TracerArrayConversionError
    │   │   └── NonConcreteBooleanIndexError (IndexError)
    │   └── UnexpectedTracerError            a tracer that outlived the function it was made for
    ├── ArgumentError                        (TypeError, ValueError) arguments that don't fit each other
    ├── JaxprTypeError                       (TypeError) a jaxpr that is not well formed or well typed
    ├── JaxprSyntaxError                     (ValueError) text or a file that can't be read as a jaxpr
    ├── HoleError                            (RuntimeError) what a text or a file could not hold was asked for
    ├── UnsupportedRule                      (NotImplementedError) a primitive has no rule for a transformation
    │   └── CallbackDerivativeError          (ValueError) the derivative of a program that calls Python was asked for
    ├── CarryMismatch                        (TypeError) a loop's body gives a carry of other types than it takes
    ├── BranchMismatch                       (TypeError) the branches of a conditional give different types
    ├── TreeMismatch                         (TypeError, ValueError) two pytrees differ
    ├── CheckpointError                      (ValueError) a folder that is no checkpoint, or a damaged one
    ├── NotInvertible                        (ValueError) a function that `inverse` can't invert
    ├── CheckError                           (ValueError) what checkify found; checkify calls it JaxRuntimeError, too
    │   ├── FailedCheckError                 a `check` of the user's
    │   ├── NaNError                         (FloatingPointError)
    │   ├── DivisionByZeroError              (ZeroDivisionError)
    │   └── OOBError                         (IndexError)
    ├── AxisNameError                        (NameError) no mapped axis of that name is in scope
    ├── DeviceNotFound                       (RuntimeError)
    ├── DeletedArrayError                    (RuntimeError) the array was deleted or donated
    ├── ArrayTooLargeError                   (ValueError, MemoryError) more bytes than can be counted
    ├── ForkedProcessError                   (RuntimeError) computing in a fork of a process that computed
    ├── NotAddressableError                  (RuntimeError) a value was asked for that is in part with other processes
    ├── MissingProcess                       (TimeoutError) a process that should take part does not come
    ├── ProcessLost                          (RuntimeError) a process that takes part has died, or can't be reached
    ├── ProgramMismatch                      (RuntimeError) processes run different programs, or in another order
    └── NarrowingWarning                     (UserWarning) a 64-bit value lost precision on the way in

Each is also the builtin exception named beside it, so `except TypeError` works as it does in NumPy; where NumPy and JAX
have different ones, each is both.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "XprError",
    "TracerError",
    "ConcretizationTypeError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TracerArrayConversionError",
    "NonConcreteBooleanIndexError",
    "UnexpectedTracerError",
    "ArgumentError",
    "JaxprTypeError",
    "JaxprSyntaxError",
    "HoleError",
    "UnsupportedRule",
    "CallbackDerivativeError",
    "CarryMismatch",
    "BranchMismatch",
    "TreeMismatch",
    "CheckpointError",
    "NotInvertible",
    "CheckError",
    "FailedCheckError",
    "NaNError",
    "DivisionByZeroError",
    "OOBError",
    "AxisNameError",
    "DeviceNotFound",
    "DeletedArrayError",
    "ArrayTooLargeError",
    "ForkedProcessError",
    "NotAddressableError",
    "MissingProcess",
    "ProcessLost",
    "ProgramMismatch",
    "NarrowingWarning",
]


class XprError(Exception):
    """The root of xpr's own exceptions."""


class TracerError(XprError, TypeError):
    """A traced value was used where only a concrete one will do."""


class ConcretizationTypeError(TracerError):
    """The value of a traced array was asked for while only its shape and dtype are known."""


class TracerBoolConversionError(ConcretizationTypeError):
    """`bool(x)`, `if x:`, `while x:`, `x and y` of a traced array."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced array where a Python integer is needed: `range(x)`, `seq[x]`, a shape."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced array handed to NumPy."""


class NonConcreteBooleanIndexError(ConcretizationTypeError, IndexError):
    """A traced boolean mask as an index: the size of the result would depend on its values."""


class UnexpectedTracerError(TracerError):
    """A tracer was used after the function it was made for had returned."""


class ArgumentError(XprError, TypeError, ValueError):
    """Arguments that don't fit each other or the array: shapes, axes, types of tangents, their number."""


class JaxprTypeError(XprError, TypeError):
    """A jaxpr that is not well formed or not well typed."""


class JaxprSyntaxError(XprError, ValueError):
    """Text that can't be read as a jaxpr; `line` and `column` say where, counted from 1, where they are known."""

    line: int | None = None
    column: int | None = None


class HoleError(XprError, RuntimeError):
    """A function or a constant was needed that the text or the file of a jaxpr could not hold."""


class UnsupportedRule(XprError, NotImplementedError):
    """A primitive has no rule for the transformation asked for."""


class CallbackDerivativeError(UnsupportedRule, ValueError):
    """The derivative of a program was asked for that calls a Python function."""


class CarryMismatch(XprError, TypeError):
    """The body of a loop gives a carry of other types, or of another structure, than it takes."""


class BranchMismatch(XprError, TypeError):
    """The branches of a conditional give results of different types or structures."""


class TreeMismatch(XprError, TypeError, ValueError):
    """Two pytrees that should have the same structure differ."""


class CheckpointError(XprError, ValueError):
    """A folder is no checkpoint, a damaged one or one of a newer format; or nothing can be saved to it."""


class CheckError(XprError, ValueError):
    """A check that was made part of a program by `checkify` has failed."""


class FailedCheckError(CheckError):
    """The condition of a `checkify.check` does not hold."""


class NaNError(CheckError, FloatingPointError):
    """An operation gave a nan."""


class DivisionByZeroError(CheckError, ZeroDivisionError):
    """An operation divided by zero."""


class OOBError(CheckError, IndexError):
    """A computed index lies outside its array."""


class NotInvertible(XprError, ValueError):
    """A function that can't be inverted, or whose inverse's log-determinant isn't known."""


class AxisNameError(XprError, NameError):
    """A collective names an axis that no enclosing vmap or pmap binds."""


class DeviceNotFound(XprError, RuntimeError):
    """The platform or device asked for is not there."""


class DeletedArrayError(XprError, RuntimeError):
    """The array's buffer was deleted or donated to a jitted call."""


class ArrayTooLargeError(XprError, ValueError, MemoryError):
    """An array in a program has more bytes than a 64-bit number counts."""


class ForkedProcessError(XprError, RuntimeError):
    """A process that was forked from one that had computed has none of the threads that programs run in."""


class NotAddressableError(XprError, RuntimeError):
    """The value of an array was asked for of which a part is on devices of other processes."""


class MissingProcess(XprError, TimeoutError):
    """A process did not come, or not to the point at which the others wait for it."""


class ProcessLost(XprError, RuntimeError):
    """A process that programs are run with has ended, or can't be reached any more."""


class ProgramMismatch(XprError, RuntimeError):
    """Processes run different programs where they should run the same one together."""


class NarrowingWarning(UserWarning):
    """A 64-bit value lost precision because 64-bit types are off."""


JAXTypeError, JAXIndexError = TracerError, NonConcreteBooleanIndexError  # what JAX calls them


def __getattr__(name: str) -> Any:
    if name == "JaxRuntimeError":  # jaxlib's: what XLA raises when a program can't be compiled or run
        return importlib.import_module("xpr.backend.runtime")._jax.JaxRuntimeError
    raise AttributeError(f"module 'xpr.errors' has no attribute {name!r}")
