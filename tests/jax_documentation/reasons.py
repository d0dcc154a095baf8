"""Why xpr gives something else than jax in an example or a cell: their names, or patterns of names, grouped by reason.

`page.md 3` is the cell of that number, from 0, `jax.numpy.sum 3` the example; `*` stands for any text. Where only the
message of an exception differs, and its type is jax's or a subclass of that, no entry is needed.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.jax_documentation.compare import Difference

SENTENCES = "Another sentence: the exception is of jax's type, or a subclass of it."


@dataclass(frozen=True)
class Explained:
    """Differences that no entry stands for, how many there are of each reason, and entries that stand for none."""

    without: list[Difference]
    counts: Counter[str]
    stale: list[str]


def explain(found: Sequence[Difference], all_pages: bool) -> Explained:
    """Finds the reason of each difference. Entries of pages are stale only where all pages were run."""
    counts, used, without = Counter[str](), set[str](), list[Difference]()
    for difference in found:
        entry = next((entry for entry in _WHY if fnmatch.fnmatchcase(difference.name, entry)), None)
        if entry is not None:
            used.add(entry)
            counts[_WHY[entry]] += 1
        elif difference.sentence:
            counts[SENTENCES] += 1
        else:
            without.append(difference)
    entries = [entry for entry in _WHY if (all_pages or entry.startswith("jax.")) and entry not in VARYING]
    return Explained(without, counts, [entry for entry in entries if entry not in used])


REASONS: dict[str, tuple[str, ...]] = {
    "Jaxprs are written in another form, and some equations are others that compute the same.": (
        "aot.md 0",
        "ffi.md 8",
        "ffi.md 9",
        "ffi.md 13",
        "jax.make_jaxpr 4",
        "jaxpr.md *",
        "jit-compilation.md [12]",
        "key-concepts.md 4",
        "notebooks/Common_Gotchas_in_JAX.md 32",
        "notebooks/Custom_derivative_rules_for_Python_code.md 9",
        "notebooks/Writing_custom_interpreters_in_Jax.md 2",
        "notebooks/shard_map.md 21",
        "tracing.md 2",
    ),
    "`make_mesh` makes Auto axes, and the page is about Explicit ones.": ("parallel.md *",),
    "Names of jax's own (`jax._src`), MLIR's Python objects, and what is about TPUs and GPUs are not there.": (
        "autodidax.md *",
        "export/export.md 2",
        "export/export.md 11",
        "gradient-checkpointing.md 23",
        "jax.experimental.pallas.tpu.einshape *",
        "pallas/gpu/pipelining.md 0",
        "pallas/gpu/reference.md *",
        "persistent_compilation_cache.md 7",
    ),
    "Rules of a primitive are called as often as they are needed; one that is missing is an `UnsupportedRule`.": (
        "jax-primitives.md *",
    ),
    "The page prints the message of an exception, which is another sentence.": (
        "array_refs.md 2",
        "array_refs.md 9",
        "array_refs.md 11",
        "debugging.md 12",
        "debugging/checkify_guide.md 0",
        "debugging/flags.md *",
        "debugging/index.md 1",
        "notebooks/shard_map.md 19",
        "notebooks/shard_map.md 22",
        "notebooks/vmapped_log_probs.md 5",
    ),
    "The text of programs: names, locations, which operations are written.": (
        "aot.md 3",
        "debugging/index.md 4",
        "debugging/xla_metadata.md *",
        "export/export.md 0",
        "ffi.md 14",
        "ffi.md 15",
    ),
    "Shardings, meshes, classes and blocks are shown without what they have by default.": (
        "export/export.md 6",
        "jax.export.Exported.in_shardings_jax 3",
        "multi_process.md 5",
        "notebooks/host-offloading.md 0",
        "notebooks/thinking_in_jax.md 4",
        "notebooks/thinking_in_jax.md 11",
        "pallas/tpu/pipelining.md 5",
    ),
    "Dicts keep the order of their keys, which need not compare.": (
        "custom_pytrees.md 15",
        "pytrees.md 5",
        "pytrees.md 17",
        "pytrees.md 18",
        "pytrees.md 19",
    ),
    "`x[mask]` of a traced mask has reductions and elementwise functions.": (
        "jax.errors.NonConcreteBooleanIndexError [59]",
        "notebooks/Common_Gotchas_in_JAX.md 36",
    ),
    "More is possible: forward mode of custom_vjp, comparisons of symbolic dimensions.": (
        "export/shape_poly.md 11",
        "notebooks/Custom_derivative_rules_for_Python_code.md 61",
    ),
    "An argument is checked where it is given: a class that refuses what it holds, an `out_shape` that is none.": (
        "custom_pytrees.md 10",
        "pallas/tpu/distributed.md 8",
    ),
    "A gradient is weak where its primal is, and a ref where the value was that it was made of.": (
        "array_refs.md 18",
        "complex-differentiation.md 5",
        "export/export.md 1",
        "notebooks/autodiff_cookbook.md 31",
    ),
    "Numbers that a linear function gives are arrays, and numbers with a dtype in jax.": (
        "jax.custom_derivatives.linear_call *",
    ),
    "Signs of imaginary parts that are 0: those of NumPy, or of the rounding.": (
        "jax.numpy.cosh 2",
        "jax.numpy.fft.hfft 7",
        "jax.numpy.fft.ihfft [12]",
        "jax.scipy.linalg.dft 0",
    ),
    "The order within the parts of a partition: both are sorted.": (
        "jax.numpy.argpartition *",
        "jax.numpy.partition *",
    ),
    "Random floats have 16 bits or more.": ("jax.nn.scaled_matmul [67]",),
    "What devices print comes in any order.": ("debugging/print_breakpoint.md 3",),
    "Where buffers are, and how many bytes programs take for what is between.": (
        "array_refs.md 16",
        "notebooks/host-offloading.md 8",
    ),
}

VARYING = {"debugging/print_breakpoint.md 3"}  # entries that stand for a difference in some runs

_WHY = {entry: why for why, entries in REASONS.items() for entry in entries}
