"""What type checkers see of xpr: every public name is exported explicitly, and functions show their types."""

import ast
import importlib
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.test_structure import FACES, tree_of

ROOT = Path(__file__).parent.parent

USES = """
import xpr
from xpr import checkpoint, doctor, storage
doctor()
f = xpr.checkpoint(len, policy=None)
g = checkpoint(len)
reveal_type(storage.save('a', 1, step=3))
storage.save(1, 2)
from xpr.scipy import stats
stats.gamma.cdf(1.0, 2.0, loc=1.0)
"""


def _public_names(face):
    """Those of `__all__`, or all but modules and what the file itself imports for its own use."""
    module = importlib.import_module(face)
    body = tree_of(face).body
    body = [*body, *(each for node in body if isinstance(node, ast.With) for each in node.body)]
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    of_its_own = {alias.name for node in imports for alias in node.names if alias.asname is None}
    public = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and name not in of_its_own and not isinstance(value, types.ModuleType)
    ]
    return getattr(module, "__all__", public)


def test_users_modules_are_checked(tmp_path):
    pytest.importorskip("mypy")
    names = [(face, name) for face in FACES for name in _public_names(face)]
    imports = [f"from {face} import {name} as _{number}\n" for number, (face, name) in enumerate(names)]
    (tmp_path / "user.py").write_text("".join(imports) + USES)
    kept = ROOT / ".mypy_cache" / "of_users"  # what mypy knows of files that have not changed
    flags = ["--config-file=", "--strict", "--follow-imports=silent", f"--cache-dir={kept}"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", "mypy", *flags, "user.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("user.py")]
    assert len(imports) > 1000
    assert len(lines) == 2 and "pathlib.Path" in lines[0] and 'Argument 1 to "save" has' in lines[1], done.stdout
