"""xpr's own exceptions, as a tree of classes.

    XprError
    ├── TracerError                          (TypeError) a traced value was used where only a concrete one will do
    │   ├── ConcretizationTypeError
    │   │   ├── TracerBoolConversionError
    │   │   ├── TracerIntegerConversionError
    │   │   │   └── TracerSliceError         (IndexError)
    │   │   ├── TracerArrayConversionError
    │   │   └── NonConcreteBooleanIndexError (IndexError)
    │   ├── UnexpectedTracerError            a tracer that outlived the function it was made for
    │   └── LeakedTracerError                the same, detected when the function returned (check_tracer_leaks)
    ├── ArgumentError                        (TypeError, ValueError) arguments that don't fit each other
    │   └── MissingMesh                      (RuntimeError) a partition spec where no mesh is current
    ├── TypePromotionError                   (ValueError, TypeError) dtypes that are not converted implicitly
    ├── ShardingTypeError                    (TypeError, ValueError) a result over Explicit axes is ambiguous
    ├── JaxprTypeError                       (TypeError) a jaxpr that is not well formed or well typed
    ├── JaxprSyntaxError                     (ValueError) text or a file that can't be read as a jaxpr
    ├── HoleError                            (RuntimeError) a jaxpr needs a value that its text or file couldn't hold
    ├── UnsupportedRule                      (NotImplementedError) a primitive has no rule for a transformation
    │   ├── UnsupportedDtype                 (TypeError) an operation does not compute in this dtype
    │   ├── CallbackDerivativeError          (ValueError) derivative of a program that calls a Python function
    │   └── ClosureDerivativeError           also UnexpectedTracerError; a custom rule lacks what a closure holds
    ├── CallbackError                        (RuntimeError) a callback raised; also of the class of what it raised
    ├── CarryMismatch                        (TypeError) a loop's body returns a carry of other types than it takes
    ├── BranchMismatch                       (TypeError) the branches of a conditional return different types
    ├── TreeMismatch                         (TypeError, ValueError) two pytrees differ
    ├── CheckpointError                      (ValueError) a folder that is not a checkpoint, or is damaged
    ├── NotInvertible                        (ValueError) a function that `inverse` can't invert
    ├── CheckError                           (ValueError) a failed check of checkify; also checkify.JaxRuntimeError
    │   ├── FailedCheckError                 a `check` of the user's
    │   ├── NaNError                         (FloatingPointError)
    │   ├── DivisionByZeroError              (ZeroDivisionError)
    │   └── OOBError                         (IndexError)
    ├── KeyReuseError                        (TypeError) a random key is used twice (debug_key_reuse)
    ├── RefError                             (ValueError) a mutable array that is used where it can't be
    ├── AxisNameError                        (NameError) no mapped axis of that name is in scope
    ├── DeviceNotFound                       (RuntimeError)
    ├── DeletedArrayError                    (ValueError, RuntimeError) the array was deleted or donated
    ├── DonationError                        (ValueError, RuntimeError) memory that can't be donated in this call
    ├── InconclusiveDimensionOperation       (TypeError) what is asked of a symbolic dimension depends on its variables
    ├── UnexpectedDimVar                     (ValueError) a dimension variable that no argument's shape has
    ├── ArrayTooLargeError                   (ValueError, MemoryError) more bytes than can be counted
    ├── TransferError                        (RuntimeError) a transfer that transfer_guard refuses
    ├── ForkedProcessError                   (RuntimeError) computing in a fork of a process that computed
    ├── NotAddressableError                  (RuntimeError) the value of an array that is partly on other processes
    ├── MissingProcess                       (TimeoutError) a process did not connect in time
    ├── ProcessLost                          (RuntimeError) a connected process has died, or can't be reached
    └── ProgramMismatch                      (RuntimeError) processes run different programs, or in another order
    NarrowingWarning                         (UserWarning) a 64-bit value lost precision when converted

Each is also the builtin exception in parentheses, so `except TypeError` works as it does in NumPy; where NumPy and JAX
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
    "TracerSliceError",
    "TracerArrayConversionError",
    "NonConcreteBooleanIndexError",
    "UnexpectedTracerError",
    "LeakedTracerError",
    "ArgumentError",
    "MissingMesh",
    "TypePromotionError",
    "ShardingTypeError",
    "JaxprTypeError",
    "JaxprSyntaxError",
    "HoleError",
    "UnsupportedRule",
    "UnsupportedDtype",
    "CallbackDerivativeError",
    "ClosureDerivativeError",
    "CallbackError",
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
    "KeyReuseError",
    "RefError",
    "AxisNameError",
    "DeviceNotFound",
    "DeletedArrayError",
    "DonationError",
    "InconclusiveDimensionOperation",
    "UnexpectedDimVar",
    "ArrayTooLargeError",
    "TransferError",
    "ForkedProcessError",
    "NotAddressableError",
    "MissingProcess",
    "ProcessLost",
    "ProgramMismatch",
    "NarrowingWarning",
]


class XprError(Exception):
    """The base class of xpr's own exceptions: `except xpr.errors.XprError` catches all of them."""


class TracerError(XprError, TypeError):
    """A traced value was used where only a concrete one will do. The base class of the exceptions below."""


class ConcretizationTypeError(TracerError):
    """The value of a traced array is needed, and only its shape and dtype are known: `float(x)`, `x.item()`. The
    exceptions for `bool`, indices, NumPy and masks are subclasses.
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """A condition on a traced array: `if x:`, `while x:`, `x and y`, `bool(x)`."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced array where a Python integer is needed: `range(x)`, an index into a list, a shape."""


class TracerSliceError(TracerIntegerConversionError, IndexError):
    """A traced bound of a slice: `x[i:j]`. The shape of the result would depend on it."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced array was passed to a function of NumPy."""


class NonConcreteBooleanIndexError(ConcretizationTypeError, IndexError):
    """A traced boolean mask as an index: the shape of the result would depend on its values."""


class UnexpectedTracerError(TracerError):
    """A tracer that was stored somewhere, and used after the traced function had returned."""


class LeakedTracerError(TracerError):
    """A tracer is still referred to when its function has returned; checked while `check_tracer_leaks` is on."""


class ArgumentError(XprError, TypeError, ValueError):
    """Arguments that don't fit each other or the array: shapes, axes, types of tangents, their number. NumPy raises
    `ValueError` for most of these, JAX `TypeError`; this is both.
    """


class MissingMesh(ArgumentError, RuntimeError):
    """A partition spec is given without a mesh, and no mesh is current. JAX raises `RuntimeError` for some functions
    there, and `ValueError` for others; this is both.
    """


class TypePromotionError(XprError, ValueError, TypeError):
    """Operands of different dtypes, while `numpy_dtype_promotion` is "strict"; or dtypes that promote to no other."""


class ShardingTypeError(XprError, TypeError, ValueError):
    """Operands are partitioned over Explicit axes of a mesh in a way that says nothing of the result, or conflicts."""


class JaxprTypeError(XprError, TypeError):
    """A jaxpr that was built or changed by hand, and is not well formed or not well typed. The equation is shown
    among its neighbours.
    """


class JaxprSyntaxError(XprError, ValueError):
    """Text that can't be read as a jaxpr; `line` and `column` say where, counted from 1, where they are known."""

    line: int | None = None
    column: int | None = None


class HoleError(XprError, RuntimeError):
    """A jaxpr that was read from text or a file needs a function or a constant that these could not hold."""


class UnsupportedRule(XprError, NotImplementedError):
    """A primitive has no rule for a transformation. The message says which one and, for a primitive of your own, how to
    define it.
    """


class UnsupportedDtype(UnsupportedRule, TypeError):
    """An operation does not compute in the dtype of its operand, as linear algebra in half precision, for which LAPACK
    has no functions.
    """


class CallbackDerivativeError(UnsupportedRule, ValueError):
    """A program was differentiated that calls a function of Python or of another library, which has no derivative."""


class ClosureDerivativeError(UnsupportedRule, UnexpectedTracerError):
    """A function with a custom derivative rule closes over a value that is being differentiated, of which its rule
    does not know.
    """


class CallbackError(XprError, RuntimeError):
    """A Python function that a program calls raised an exception. The error is of that exception's class, too, and a
    `JaxRuntimeError`, so that `except` meets it by either; its `__cause__` is the exception itself.
    """


class CarryMismatch(XprError, TypeError):
    """The body of a loop returns a carry of other types, or of another structure, than it takes."""


class BranchMismatch(XprError, TypeError):
    """The branches of a conditional return results of different types or structures."""


class TreeMismatch(XprError, TypeError, ValueError):
    """Two pytrees that should have the same structure differ. All differences are listed, by path."""


class CheckpointError(XprError, ValueError):
    """A folder is not a checkpoint, is damaged, has a newer format, or can't be written to. Where there is
    nothing at all it is a `FileNotFoundError`.
    """


class CheckError(XprError, ValueError):
    """A check that `checkify` made part of a program has failed; `error.throw()` raises it. The base class of the
    exceptions below.
    """


class FailedCheckError(CheckError):
    """The condition of a `checkify.check` does not hold."""


class NaNError(CheckError, FloatingPointError):
    """An operation returned nan."""


class DivisionByZeroError(CheckError, ZeroDivisionError):
    """An operation divided by zero."""


class OOBError(CheckError, IndexError):
    """A computed index is out of bounds."""


class NotInvertible(XprError, ValueError):
    """A function that `inverse` can't invert, or whose inverse's log-determinant isn't known."""


class KeyReuseError(XprError, TypeError):
    """A random key is used a second time, which would give the same numbers again; found while
    `debug_key_reuse` is on.
    """


class RefError(XprError, ValueError):
    """A mutable array (`Ref`) that is returned from a traced function, passed to one twice, used after it was frozen,
    or written from inside a transformation that it is no part of.
    """


class AxisNameError(XprError, NameError):
    """A collective names an axis that no enclosing `vmap`, `pmap` or `shard_map` binds."""


class DeviceNotFound(XprError, RuntimeError):
    """There is no such platform or device on this machine."""


class DeletedArrayError(XprError, ValueError, RuntimeError):
    """An array was used that was deleted, or whose memory was donated to a jitted call (`donate_argnums`)."""


class DonationError(XprError, ValueError, RuntimeError):
    """An array is donated to a jitted call (`donate_argnums`) that is given it twice, or whose function closes over
    it.
    """


class InconclusiveDimensionOperation(XprError, TypeError):
    """A comparison of symbolic dimensions that holds for some values of their variables only, or one that is used where
    an integer is needed: `range(x.shape[0])`, `int(x.shape[0])`.
    """


class UnexpectedDimVar(XprError, ValueError):
    """A symbolic dimension has a variable that is in no shape of an argument, from which its value is computed."""


class ArrayTooLargeError(XprError, ValueError, MemoryError):
    """An array of more bytes than a 64-bit number counts. One that can be counted and does not fit into memory is a
    `RuntimeError` of XLA's that starts with `RESOURCE_EXHAUSTED` and says what the program needs.
    """


class TransferError(XprError, RuntimeError):
    """A transfer between the host and a device, or between devices, that `transfer_guard` refuses."""


class ForkedProcessError(XprError, RuntimeError):
    """Computing in a process that was forked from one that had computed: a fork has none of the threads that programs
    run in.
    """


class NotAddressableError(XprError, RuntimeError):
    """The value of an array is needed whose parts are on devices of several processes."""


class MissingProcess(XprError, TimeoutError):
    """A process did not connect, or did not reach a point where the others wait for it, in time."""


class ProcessLost(XprError, RuntimeError):
    """Another process of a distributed program has ended, or can't be reached any more."""


class ProgramMismatch(XprError, RuntimeError):
    """Processes run different programs where all have to run the same ones in the same order."""


class NarrowingWarning(UserWarning):
    """A 64-bit value lost precision, since numbers are 32 bits wide unless `enable_x64` is set. It is shown once for
    each line; what fits in 32 bits is narrowed without a warning.
    """


JAXTypeError, JAXIndexError = TracerError, NonConcreteBooleanIndexError  # JAX's names


def __getattr__(name: str) -> Any:
    if name == "JaxRuntimeError":  # jaxlib's: what XLA raises when a program can't be compiled or run
        return importlib.import_module("xpr.backend.runtime")._jax.JaxRuntimeError
    raise AttributeError(f"module 'xpr.errors' has no attribute {name!r}")
