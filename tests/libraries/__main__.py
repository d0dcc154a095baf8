"""`python -m tests.libraries`: runs the program of each library on xpr, prints the table of docs/libraries.md.

    python -m tests.libraries                      what runs, and the first error of what doesn't
    python -m tests.libraries --save folder        with the results, to be compared with those of another environment
    python -m tests.libraries --real --save folder the same programs on the real jax
    python -m tests.libraries --compare one other  the results of two such runs
    python -m tests.libraries --record folder      results on the real jax, which the test then expects

Libraries that are not installed are left out. They are best installed into an environment of their own, without what
they depend on (`pip install --no-deps -r tests/libraries/requirements.txt`), so that jax does not come with them.
"""

import argparse
import importlib.metadata
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "results.json"
ONE = "import sys; from tests.libraries.__main__ import run_one; run_one(*sys.argv[1:])"
DISTRIBUTIONS = {"flax_linen": "flax", "flax_nnx": "flax", "haiku": "dm-haiku", "ott": "ott-jax"}


def names():
    """The libraries, in the order in which their programs stand."""
    source = (FOLDER / "programs.py").read_text()
    return [line[4 : line.index("(")] for line in source.splitlines() if line.startswith("def ")]


def version(name):
    """The installed version, None if it isn't."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(name, name))
    except importlib.metadata.PackageNotFoundError:
        return None


def results(name):
    """The results of a program in this process, where `import jax` gives whichever it is to be run on."""
    import jax

    from tests.libraries import programs

    return [np.asarray(x) for x in jax.tree.leaves(getattr(programs, name)())]


def run_one(name, folder=""):
    """Runs a program in this process, and saves its results where a folder is named."""
    leaves = results(name)
    if folder:
        np.savez(Path(folder) / name, *leaves)


def run(name, real, folder):
    """The last line of the error of a program, None where it runs."""
    code = ONE if real else f"import xpr.as_jax; {ONE}"
    command = [sys.executable, "-W", "ignore", "-c", code, name, str(folder or "")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=ROOT)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]


def difference(ours, theirs):
    """By how much results differ; infinity where their number or shapes do."""
    if [np.shape(x) for x in ours] != [np.shape(x) for x in theirs]:
        return float("inf")
    return max(float(np.max(np.abs(np.asarray(x, float) - y), initial=0)) for x, y in zip(ours, theirs))


def compare(one, other):
    """Prints by how much the results of two runs differ."""
    for path in sorted(Path(one).glob("*.npz")):
        beside = Path(other) / path.name
        if beside.exists():
            print(f"{path.stem:24s} {difference(*(list(np.load(each).values()) for each in (path, beside))):.2g}")


def record(folder):
    """Writes the results of a run on the real jax as those that are expected, a line for each library."""
    saved = {path.stem: list(np.load(path).values()) for path in sorted(Path(folder).glob("*.npz"))}
    rounded = {name: [np.round(x.astype(float), 6).tolist() for x in leaves] for name, leaves in saved.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(leaves)}" for name, leaves in rounded.items()]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.libraries", description=inspect.getdoc(sys.modules[__name__])
    )
    parser.add_argument("--real", action="store_true", help="on the real jax")
    parser.add_argument("--save", metavar="FOLDER", help="where the results are put")
    parser.add_argument("--compare", nargs=2, metavar="FOLDER", help="the results of two runs")
    parser.add_argument("--record", metavar="FOLDER", help="the results that are expected")
    options = parser.parse_args()
    if options.compare:
        return compare(*options.compare)
    if options.record:
        return record(options.record)
    if options.save:
        Path(options.save).mkdir(parents=True, exist_ok=True)
    print("| library | version | |\n|---|---|---|")
    for name in names():
        if version(name) is None:
            continue
        error = run(name, options.real, options.save)
        print(f"| {name} | {version(name)} | {'runs' if error is None else error[:160]} |", flush=True)


if __name__ == "__main__":
    main()
