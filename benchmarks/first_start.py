"""First runs of short scripts, as users write them (scripts/): nearly all of it is compiling small programs.

Each is timed with the library's caches empty: the second time, when Python's modules are loaded. The last
case runs all of them, one after another: a script finds the programs that those before it had compiled.
"""

from collections.abc import Callable

from benchmarks.case import Call, Case, Library, cold
from benchmarks.scripts import SCRIPTS


def first_run(*scripts: Callable[[Library], object]) -> Callable[[Library], Call]:
    return lambda library: lambda: [script(library) for script in scripts]


CASES = [
    *(Case(f"first run: {script.__name__.replace('_', ' ')}", cold(first_run(script)), target=2) for script in SCRIPTS),
    Case(f"first runs of all {len(SCRIPTS)} scripts", cold(first_run(*SCRIPTS)), target=5),
]
