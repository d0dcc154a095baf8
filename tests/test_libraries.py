"""Libraries that are written for JAX run on xpr, with the results that they have on JAX (tests/libraries).

They are installed without what they depend on, so jax does not come with them, into a folder that is kept for the next
time; one process runs the programs of all. Where the registry can't be reached, the test is skipped and says so.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.libraries.__main__ import EXPECTED, FOLDER, ROOT, names

RUN = """
import json, sys
import xpr.as_jax
from tests.compiler_options import QUICK
from tests.libraries.__main__ import EXPECTED, difference, names, results, version
from xpr.backend import compile_options

expected = json.loads(EXPECTED.read_text())
found = {}
for name in filter(version, names()):
    compile_options.process_options = {"xla_cpu_prefer_vector_width": 256} if name in sys.argv[1:] else QUICK
    try:
        ours = results(name)
        found[name] = difference(ours, expected[name]) if name in expected else 0.0
    except BaseException as error:
        found[name] = f"{type(error).__name__}: {error}"
real = [name for name, module in sys.modules.items() if "/site-packages/jax/" in str(getattr(module, "__file__", ""))]
print(json.dumps([found, real]))
"""
# What they sample and train, in which a rounding grows, is compiled as it was on jax; processors differ by 2e-4.
GROWING = ["numpyro", "keras"]
NOT_YET: dict[str, str] = {}  # programs that don't run, with the reason
NOT_INSTALLED = {"brax"}  # it needs all of mujoco, which is large


KEPT = ROOT / ".pytest_cache" / "libraries"


def installed():
    """The folder that has the libraries, installed where none is kept of this list and Python; or skips the test."""
    requirements = FOLDER / "requirements.txt"
    folder = KEPT / hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:16]
    if not folder.exists():
        shutil.rmtree(KEPT, ignore_errors=True)
        install(requirements, KEPT / "unfinished")
        (KEPT / "unfinished").rename(folder)
    return folder


def install(requirements, folder):
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps"]
    command += ["--no-compile", "--target", str(folder), "-r", str(requirements)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        pytest.skip("the libraries could not be installed within five minutes")
    if done.returncode != 0:
        pytest.skip(f"the libraries could not be installed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")


def test_programs_give_what_they_give_on_jax(tmp_path):
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{installed()}"}
    command = [sys.executable, "-W", "ignore", "-c", RUN, *GROWING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found, real = json.loads(done.stdout.splitlines()[-1])
    assert not real, "modules of the real jax were imported"
    assert set(names()) - set(found) <= NOT_INSTALLED
    wrong = {name: result for name, result in found.items() if name not in NOT_YET and not _close(name, result)}
    assert not wrong
    assert not [name for name in NOT_YET if _close(name, found[name])], "runs by now"


def _close(name, result):
    return isinstance(result, float) and result < (1e-3 if name in GROWING else 1e-4)


def test_expected_results_are_of_programs():
    assert set(json.loads(EXPECTED.read_text())) <= set(names())
