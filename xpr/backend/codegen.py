"""How XLA:CPU is to generate the code of a program, by how much it computes.

XLA's defaults suit large models: small programs take ten times as long to compile with them as they ever run. What is
known of a program is what lowering has counted, its `Workload`, and for small ones the operations in their text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from xpr.backend import native
from xpr.backend.processor import CORES
from xpr.dimensions.expressions import surely_at_least

_DEEP, _NETWORK = 8, 2  # products
_FEW_ELEMENTS = 1 << 16  # of all results together; a program, or step of a loop, of fewer runs for microseconds
_SMALL, _SMALL_BESIDE_LOOPS = 1 << 14, 1 << 18  # elements of an array; a step of a loop may read a part of it
_LARGE_TRANSPOSE = 1 << 18  # elements, more than a cache holds
_MANY_ROWS, _SHORT_ROW = 512, 16  # elements: of an array with short rows, and of a vector of 512 bits
_FEW_IN_ALL = 1 << 11  # elements of all results together
_LONG_REDUCTION, _FEW_REPEATED = 32, 2  # elements of a result's loop, and how many of these
_MANY_ALIKE = 8  # values that a program stores, beyond one of each kind
_ONE_OPERATION = 1000  # characters: a text that may have one operation
# Bytes that all operations write or reduce: up to so many, one thread is done before others are awake; fewer in a step
# of a loop, in which they are. By n threads at most (n - 1) / n of the time is gained.
_OF_ONE_THREAD = (1 << 23) * CORES // max(CORES - 1, 1)
_OF_ONE_THREAD_IN_LOOPS = _OF_ONE_THREAD // 4
_LARGE_ARRAY = 1 << 20  # bytes, from which several threads read and write memory faster

# Elements that functions overwrite: where all are fast; where some are slow; of one product in a program with loops.
_FEW_OVERWRITTEN_FAST, _FEW_OVERWRITTEN, _FEW_IN_LOOPS = 1 << 12, 1 << 9, 1 << 5

_PRODUCTS = frozenset({"stablehlo.convolution", "stablehlo.dot_general"})
_MATRIX_PRODUCT = "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]"
# Operations on parts of rows, or on columns.
_ACROSS_ROWS = frozenset(
    f"stablehlo.{name}" for name in ("concatenate", "gather", "pad", "reduce_window", "scatter", "sort")
)
# Functions that take a few nanoseconds for each element. The library's own formulas read the bits of numbers.
_SLOW = re.compile(
    r"(?:stablehlo|chlo)\.(?:bitcast_convert|cbrt|cosine|erf\w*|exponential\w*|log\w*|power|r?sqrt|sine|tanh?)"
)
_FASTER_TILED = frozenset({"stablehlo.exponential", "stablehlo.tanh"})
_TRANSPOSES = frozenset({"stablehlo.reshape", "stablehlo.transpose"})
# Operations that compute no function of the elements.
_COPIES = frozenset(
    ("func.return", "stablehlo.custom_call", "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice",
     "stablehlo.gather", "stablehlo.reshape", "stablehlo.scatter", "stablehlo.slice", "stablehlo.while")
)  # fmt: skip
# Operations that XLA expands to some hundred others, those that it expands to some twenty, and two that take as long as
# so many.
_SERIES = frozenset({"chlo.atan", "chlo.erf", "chlo.erf_inv", "chlo.lgamma", "chlo.digamma"})
_EXPANDED = dict.fromkeys(_SERIES, 100) | dict.fromkeys(
    (f"stablehlo.{name}" for name in (
        "atan2", "cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "power",
        "sine", "tan", "tanh",
    )), 20,
) | {"stablehlo.remainder": 500, "stablehlo.transpose": 64}  # fmt: skip
# Operations on windows, whose sizes are not looked at.
_OF_WINDOWS = frozenset({"stablehlo.reduce_window", "stablehlo.select_and_scatter"})
# Operations whose floats are the same however they are compiled.
_EXACT = frozenset(
    ("abs", "add", "bitcast_convert", "broadcast_in_dim", "call", "clamp", "concatenate", "constant", "convert",
     "dynamic_slice", "gather", "maximum", "minimum", "negate", "pad", "reshape", "reverse", "select", "slice",
     "subtract", "transpose")
)  # fmt: skip
_ARC_TANGENTS = ('chlo.atan"', "chlo.atan ", "stablehlo.atan2")  # as texts have them
_SMALL_TYPES = ("f16", "f8E", "f4E", "i4")
_CALLS_THAT_ADD = (native.MATMUL, native.MATVEC, native.REDUCE)
# Functions that the emitters compute by formulas of their own.
_OF_EMITTERS = frozenset({"chlo.tan", "stablehlo.tan"})
_STORES = frozenset({"func.return", "stablehlo.concatenate"})

_OPERATION = re.compile(r'^(?:(%\d+)(:\d+)? = )?"(\w+\.\w+)"\(([^)]*)\)(.*)$', re.MULTILINE)
_TENSOR = re.compile(r"tensor<((?:\d+x)+)((?:bf|f)\d)?")
_TENSOR_OF_FLOATS = re.compile(r"\(?tensor<[^>]*f(?:16|32|64)>")
_HALF = re.compile(r"\bf16|xf16")
_RESULT = re.compile(r"\(?tensor<((?:\d+x)+)")


class Codegen(NamedTuple):
    """How XLA:CPU is to generate the code of a program.

    Attributes:
      unrolled: loops are unrolled.
      narrow: vectors are of 256 bits.
      tiled: transposes are computed tile by tile.
      quick: the program takes more time to compile than to run.
      lone: the program is one exponential or hyperbolic tangent.
      serial: each of its kernels runs on one thread.
      verified: XLA checks the program after each of its passes.
      small_types: it may have numbers of 4, 8 or 16 bits, which XLA computes in wider types.
    """

    unrolled: bool = True
    narrow: bool = False
    tiled: bool = False
    quick: bool = False
    lone: bool = False
    serial: bool = False
    verified: bool = True
    small_types: bool = True


class Workload:
    """How much a program computes, which lowering counts.

    Attributes:
      elements: how many elements its operations compute, in one step of a loop; scatters count as infinitely many.
      bytes: how many bytes its operations write or reduce, in one step of a loop, and in each call of a function;
        functions of elements count as the operations that they expand to.
      most_bytes: how many bytes the largest array has that is written or reduced.
      products: the number of matrix products.
      repeated_reductions: the number of long reductions, after the first of each kind.
      draws: whether it draws random numbers outside of loops, which are to be JAX's to the last bit where they can be.
      has_loops: whether it has `while`.
      has_hot_loops: whether some loops are several times slower on CPU if they are not unrolled.
      is_foreign: whether it has functions that others wrote.
      transposed: the number of elements of the largest array that it transposes.
    """

    def __init__(self) -> None:
        self.elements = self.bytes = self.most_bytes = 0.0
        self.products = self.repeated_reductions = 0
        self.draws = self.has_loops = self.has_hot_loops = self.is_foreign = False
        self.transposed = 0
        self._reductions: set[Any] = set()  # the kinds of the long ones

    def add_operation(self, name: str, operands: Sequence[Any], result: Any) -> None:
        """Counts the elements and bytes of an operation on values that has one result, of this type."""
        is_large = name == "stablehlo.scatter" or result.is_symbolic
        self.elements += math.inf if is_large else (100 if name in _SERIES else 1) * result.size
        self.add_bytes(name, operands[0].aval if name == "stablehlo.reduce" else result)

    def add_bytes(self, name: str, aval: Any) -> None:
        """Counts the bytes that an operation writes, or of a reduction those that it reads."""
        if name in _OF_WINDOWS or aval.is_symbolic:
            self.bytes = math.inf
        else:
            nbytes = aval.size * aval.dtype.itemsize
            self.bytes += _EXPANDED.get(name, 1) * nbytes
            self.most_bytes = max(self.most_bytes, nbytes)

    def add_foreign(self) -> None:
        """Counts functions of exported programs, or those that a user writes in MLIR, as infinitely many bytes."""
        self.bytes, self.is_foreign = math.inf, True

    def add_reduction(self, kind: Any, reduced: Any) -> None:
        """Counts a reduction of `reduced` elements to one; XLA may compile those of one kind together."""
        if surely_at_least(reduced, _LONG_REDUCTION):
            self.repeated_reductions += kind in self._reductions
            self._reductions.add(kind)


def codegen_of_text(codegen: Codegen, text: str) -> Codegen:
    """How a text is to be compiled, by what operations and types it has: with narrow vectors if it has arc tangents.

    For those of several numbers XLA calls functions that come with it (`xla.atan.v16f32`). They take 512 bits as two
    vectors of 256, whatever the program prefers, and where LLVM doesn't inline them results are what happened to be in
    the registers. There are no others: XLA writes the code of its other functions for each program.
    """
    narrow = codegen.narrow or any(name in text for name in _ARC_TANGENTS)
    # What functions that XLA calls while it partitions a program write is not in its text.
    small_types = codegen.verified or any(name in text for name in _SMALL_TYPES)
    return codegen._replace(narrow=narrow, small_types=small_types)


def codegen_of_program(functions: Sequence[str], work: Workload, is_plain: bool) -> Codegen:
    """How XLA:CPU is to compile a program.

    The fusion emitters compile a kernel once for all operations that are alike. Without them each of ten sums takes as
    long as the first, and so does each of a hundred parameters that an optimizer adds something to.

    Args:
      functions: their texts, operations in MLIR's generic form.
      is_plain: whether it runs on one device, and has known shapes.
    """
    if not is_plain:
        return _codegen(functions, work, [], is_small=False, is_quick=False)
    if work.elements > _FEW_ELEMENTS or work.repeated_reductions > _FEW_REPEATED:
        return _verified(work, _codegen(functions, work, [], is_small=False, is_quick=False))
    operations = _operations(functions)
    is_small = not (work.draws and _draws_depend_on_emitters(operations)) and not _stores_many_alike(operations)
    is_quick = is_small and not _overwrites_many(operations, work)
    return _verified(work, _codegen(functions, work, operations, is_small, is_quick))


def codegen_of_operation(functions: Sequence[str], work: Workload, is_plain: bool) -> Codegen:
    """How XLA:CPU is to compile a program of a single operation: quickly, however long it runs."""
    codegen = _codegen(functions, work, _operations(functions), is_small=True, is_quick=True)
    return _verified(work, codegen) if is_plain else codegen


def _verified(work: Workload, codegen: Codegen) -> Codegen:
    """How a program on one device is compiled, with XLA's checks if it has functions that others wrote."""
    return codegen._replace(verified=work.is_foreign)


class _Operation(NamedTuple):
    """A line of a function's text, `%3 = "stablehlo.add"(%1, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>`.

    Attributes:
      result: `%3`; empty if there is none.
      several: `:2` where it has two results.
      name: `stablehlo.add`.
      operands: `%1, %2`.
      rest: the properties and types; if it has regions, what stands before the first.
    """

    result: str
    several: str
    name: str
    operands: str
    rest: str

    @property
    def result_type(self) -> str:
        """The text of the results' type, empty if it has regions or no results."""
        return self.rest.rpartition(" -> ")[2] if " -> " in self.rest else ""

    @property
    def has_floats(self) -> bool:
        """Whether its first result is one of floats."""
        return _TENSOR_OF_FLOATS.match(self.result_type) is not None

    @property
    def size(self) -> int:
        """The number of elements of its first result; 0 if that is a scalar, of unknown shape, or not on this line."""
        result = _RESULT.match(self.result_type)
        return math.prod(_sizes(result[1])) if result else 0


def _operations(functions: Iterable[str]) -> list[_Operation]:
    return [_Operation(*groups) for text in functions for groups in _OPERATION.findall(text)]


def _codegen(
    functions: Sequence[str], work: Workload, operations: list[_Operation], is_small: bool, is_quick: bool
) -> Codegen:
    """Deep networks run as fast without unrolled loops, and compile 10 % sooner; small arrays up to 10 times.

    LLVM unrolls the loops over rows of a known length, and what the vectors leave of each: `tanh` of [20, 30] takes
    160 ms to compile, and 20 ms if it doesn't. Only where many rows are shorter than a vector, that is slower to run,
    and vectors of 256 bits leave less of each. Loops over whole rows run up to five times faster so, and those over
    parts of rows, and some products, several times slower.
    """
    unrolled, narrow = work.has_hot_loops or work.products < _DEEP, False
    tensors = {tensor for text in functions for tensor in _TENSOR.findall(text)} if is_small else set()
    shapes = {_sizes(shape) for shape, _ in tensors}
    of_floats = {_sizes(shape) for shape, float_type in tensors if float_type}
    largest = max(map(math.prod, shapes), default=1)
    if is_small and work.has_loops and work.elements <= _FEW_ELEMENTS:
        by_rows = not any(map(_is_short, of_floats)) and not any(map(_reads_across_rows, operations))
        unrolled = narrow = largest > _SMALL_BESIDE_LOOPS or not by_rows
    elif work.has_loops:
        narrow = work.elements <= _SMALL_BESIDE_LOOPS
    elif is_small and largest <= _SMALL:
        several = work.elements > _FEW_IN_ALL and work.products < _NETWORK
        unrolled = narrow = several and any(map(_has_short_rows, shapes))
    most = _OF_ONE_THREAD_IN_LOOPS if work.has_loops else _OF_ONE_THREAD
    serial = work.bytes <= most and work.most_bytes < _LARGE_ARRAY
    few = _few_operations(functions)
    is_transpose = _is_lone_transpose(few, work)
    tiled = work.transposed >= _LARGE_TRANSPOSE or is_transpose
    quick, lone = is_quick and not is_transpose, _is_lone_function(few)
    return Codegen(unrolled, narrow, tiled, quick, lone, serial)


def _sizes(shape: str) -> tuple[int, ...]:
    """The sizes of a shape that is written `2x3x`."""
    return tuple(map(int, shape.split("x")[:-1]))


def _has_short_rows(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and 1 < shape[-1] < _SHORT_ROW and math.prod(shape) >= _MANY_ROWS


def _is_short(shape: tuple[int, ...]) -> bool:
    """Whether the last axis that isn't of one element is shorter than a vector."""
    return 1 < next((n for n in reversed(shape) if n > 1), 1) < _SHORT_ROW


def _reads_across_rows(operation: _Operation) -> bool:
    """Whether it computes with parts of rows, columns, or pairs of numbers."""
    if operation.name == "stablehlo.dot_general":
        return _MATRIX_PRODUCT not in operation.rest
    return operation.name in _ACROSS_ROWS or (operation.name == "stablehlo.reduce" and operation.several == ":2")


def _has_own_buffer(operation: _Operation) -> bool:
    """Whether it is a product, or computed in C element by element."""
    return operation.name in _PRODUCTS or (
        operation.name == "stablehlo.custom_call"
        and (native.MATMUL in operation.rest or native.OF_ELEMENTS in operation.rest)
    )


def _adds_up(operations: list[_Operation]) -> bool:
    """Whether there is a sum of floats, or a product of matrices. What a reduction does is the line after its own."""
    for operation, following in pairwise(operations):
        if operation.name.startswith("stablehlo.reduce"):
            if following.name == "stablehlo.add" and following.has_floats:
                return True
        elif operation.name in _PRODUCTS or any(name in operation.rest for name in _CALLS_THAT_ADD):
            return True
    return False


def _overwrites_many(operations: list[_Operation], work: Workload) -> bool:
    """Whether functions of elements that overwrite their operand have so many of them that it counts.

    Results of products, convolutions, loops and C have buffers of their own, which the next function of the elements
    overwrites. Without the fusion emitters LLVM doesn't know that each element is read before it is written, and
    computes one at a time.
    """
    products = [operation.size for operation in operations if _has_own_buffer(operation)]
    if not work.has_loops:
        is_slow = any(_SLOW.fullmatch(operation.name) and operation.size for operation in operations)
        return sum(products) > (_FEW_OVERWRITTEN if is_slow else _FEW_OVERWRITTEN_FAST)
    loops = {operation.result for operation in operations if operation.name == "stablehlo.while" and operation.several}
    read = (
        operation.size
        for operation in operations
        if operation.name not in _COPIES
        and any(name.partition("#")[0] in loops for name in operation.operands.split(", "))
    )
    return max(products, default=0) > _FEW_IN_LOOPS or sum(read) > _FEW_OVERWRITTEN


def _draws_depend_on_emitters(operations: list[_Operation]) -> bool:
    """Whether what a program computes from random numbers is JAX's to the last bit with the fusion emitters alone.

    Emitters add products in one instruction or in two, and have logarithms of float16 and tangents of their own. Where
    numbers are added up, and in products of matrices, the last bits are others in any case.
    """
    rounding = [each for each in operations if each.name.partition(".")[2] not in _EXACT and each.has_floats]
    if _adds_up(operations):
        rounding = [each for each in rounding if each.name in _OF_EMITTERS or _HALF.search(each.result_type)]
    return bool(rounding)


def _stores_many_alike(operations: list[_Operation]) -> bool:
    """Whether many of the values that it stores together, each by a kernel of its own, are computed alike."""
    together = (operation.operands.split(", ") for operation in operations if operation.name in _STORES)
    stored = [name for names in together if len(names) > _MANY_ALIKE for name in names]
    if not stored:
        return False
    kinds = {operation.result: (operation.name, operation.result_type) for operation in operations}
    computed = [kinds[name] for name in stored if name in kinds]
    return len(computed) - len(set(computed)) >= _MANY_ALIKE


def _is_lone_function(operations: list[_Operation]) -> bool:
    """Whether a program is one function of the elements, of those that are faster tile by tile."""
    return len(operations) == 1 and operations[0].name in _FASTER_TILED


def _is_lone_transpose(operations: list[_Operation], work: Workload) -> bool:
    """Whether a program transposes an array that is not small, and does nothing else but to reshape it."""
    return bool(operations) and work.transposed >= _SMALL and {each.name for each in operations} <= _TRANSPOSES


def _few_operations(functions: Sequence[str]) -> list[_Operation]:
    """The operations of a program that may have only one; none if it has more."""
    if len(functions) != 1 or len(functions[0]) >= _ONE_OPERATION:
        return []
    return [operation for operation in _operations(functions) if operation.name.startswith("stablehlo.")]
