"""The shape of the library: floors, dependencies, primitives with all their rules and rows, documented public names."""

import ast
import graphlib
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import xpr
from tests.ops import table
from xpr.core.primitive import SLOTS, Primitive, Unsupported, all_primitives

ROOT = Path(xpr.__file__).parent

# From the ground up, as ARCHITECTURE.md draws them; "" is the public face, xpr/__init__.py.
FLOORS = [
    ("errors",), ("config",), ("dtypes",), ("optree_kept", "tree_nodes", "tree", "tree_util"), ("core",), ("text",),
    ("backend",), ("primitives",), ("transforms",), ("passes",), ("compile",), ("control",), ("numpy",), ("random",),
    ("nn",), ("scipy",), ("api",), ("series", "inversion", "sparsity"), ("lax",), ("extend",), ("inspect",), ("jaxpr",),
    ("checkpoint",),
    ("ad_checkpoint", "flatten_util", "image", "ops", "custom_derivatives", "custom_batching", "debug", "checkify",
     "doctor", "sharding", "experimental"),
    ("distributed", "multihost_utils", "launch"),
    ("testing",), ("",), ("demo",),
]  # fmt: skip
FLOOR_OF = {name: number for number, names in enumerate(FLOORS) for name in names}

IMPORTS_IN_FUNCTIONS = {
    "xpr.api.doctor": "importlib.metadata takes 5 ms to import, and only the doctor asks for it",
    "xpr.api.jit": "rerolling takes 30 ms to import, and only the compiler option asks for it",
    "xpr.backend.compiler": "the disk cache takes 10 ms to import, and most processes never use it",
    "xpr.numpy.einstein": "opt_einsum takes 5 ms to import, and only einsum of three operands or more asks for it",
    "xpr.demo.plot": "matplotlib is an optional extra",
}


def _module_name(path):
    parts = ("xpr", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {_module_name(path): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def _statements(node):
    """Import statements, those for type checkers alone excepted, each with whether it is inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, False
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from ((statement, inside or deeper) for statement, deeper in _statements(child))


def _imported(statement):
    """The modules a statement names: `from xpr import tree` names xpr.tree, `from xpr.core import Var` xpr.core."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    assert statement.level == 0, f"imports are absolute: {ast.unparse(statement)}"
    whole = [f"{statement.module}.{alias.name}" for alias in statement.names]
    return [name if name in TREES else statement.module for name in whole]


IMPORTS = {
    module: [(name, statement.lineno) for statement, _ in _statements(tree) for name in _imported(statement)]
    for module, tree in TREES.items()
}


def _floor(module):
    name = [*module.split("."), ""][1]
    assert name in FLOOR_OF, f"{module} stands on no floor: name it in ARCHITECTURE.md and in this test"
    return FLOOR_OF[name]


def test_imports_go_down():
    wrong = [
        f"{module}:{line} imports {name}"
        for module, imports in IMPORTS.items()
        for name, line in imports
        if name.split(".")[0] == "xpr" and _floor(name) > _floor(module)
    ]
    assert not wrong, "imports of floors above:\n" + "\n".join(wrong)


def test_files_of_a_floor_have_an_order():
    graph = {
        module: {name for name, _ in imports if name in TREES and _floor(name) == _floor(module)}
        for module, imports in IMPORTS.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail("files import each other in a circle: " + " imports ".join(reversed(error.args[1])))


def test_imports_stand_at_the_top():
    inside = {module for module, tree in TREES.items() for _, within in _statements(tree) if within}
    assert inside == IMPORTS_IN_FUNCTIONS.keys() & TREES.keys(), "imports inside functions need a reason in this test"


def test_nothing_imports_jax_or_scipy():
    found = {
        f"{module}:{line}"
        for module, imports in IMPORTS.items()
        for name, line in imports
        if name.split(".")[0] in ("jax", "scipy")
    }
    assert not found


def test_jaxlib_is_used_in_the_backend_alone():
    users = {module for module, imports in IMPORTS.items() for name, _ in imports if name.split(".")[0] == "jaxlib"}
    assert users and all(module.startswith("xpr.backend.") for module in users)


def test_import_is_light():
    """Importing xpr pulls in neither what it compares itself with nor what it needs only now and then."""
    heavy = ["jax", "lark", "scipy", "matplotlib", "hypothesis", "pytest"]
    code = f"import sys, xpr; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


# -- Primitives


@pytest.fixture(scope="module")
def primitives():
    for module in pkgutil.walk_packages([str(ROOT)], "xpr."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return [p for p in all_primitives() if not _is_a_users(p)]


def _is_a_users(primitive):
    """Whether it was made through xpr.extend, by another test."""
    return type(primitive).__module__ != "xpr.core.primitive"


def test_every_primitive_has_a_row(primitives):
    with_rows = {row.primitive.name for row in table.ROWS}
    missing = sorted({p.name for p in primitives} - with_rows)
    assert not missing, "primitives without a row"


def test_elementwise_primitives_have_one_face():
    """`elementwise` gathers all primitives of their files, and is where everything else has them from."""
    face = "xpr.primitives.elementwise"
    files = {name for name, _ in IMPORTS[face]} - {"xpr.primitives.elementwise_rules"}
    around = {module for module, imports in IMPORTS.items() if files & {name for name, _ in imports}}
    assert around <= {face, *files}
    made = {
        name
        for file in files
        for name, value in vars(importlib.import_module(file)).items()
        if isinstance(value, Primitive)
    }
    assert not made - vars(importlib.import_module(face)).keys()


def test_every_slot_holds_a_rule_or_a_reason(primitives):
    wrong = []
    for primitive in primitives:
        for slot in SLOTS:
            rule = getattr(primitive, slot)
            if isinstance(rule, Unsupported):
                if len(rule.why) < 12 or "below" in rule.why:
                    wrong.append(f"{primitive}.{slot}: {rule.why!r} is no reason")
            elif not callable(rule):
                wrong.append(f"{primitive}.{slot}: {rule!r} is no rule")
    assert not wrong, "\n".join(wrong)


def test_every_primitive_is_named_in_its_module(primitives):
    """`<name>_p`, so that it can be found, and imported by whoever interprets jaxprs."""
    names = {
        name
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("xpr.")
        for name in vars(module)
    }
    assert not sorted(p.name for p in primitives if f"{p.name.replace('-', '_')}_p" not in names)


# -- Public names

FACES = [
    "xpr", "xpr.numpy", "xpr.numpy.linalg", "xpr.numpy.fft", "xpr.lax", "xpr.lax.linalg", "xpr.random", "xpr.nn",
    "xpr.nn.initializers", "xpr.tree", "xpr.tree_util", "xpr.core", "xpr.extend", "xpr.jaxpr", "xpr.ad_checkpoint",
    "xpr.custom_derivatives", "xpr.custom_batching", "xpr.debug", "xpr.sharding", "xpr.distributed",
    "xpr.multihost_utils", "xpr.checkpoint", "xpr.checkify", "xpr.testing", "xpr.errors", "xpr.dtypes",
]  # fmt: skip


def _is_there(name):
    return name in TREES


@pytest.mark.parametrize("face", FACES)
def test_public_names_are_documented(face):
    if not _is_there(face):
        pytest.skip("not there yet")
    module = importlib.import_module(face)
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    public = {name: getattr(module, name) for name in names}
    bare = [
        name
        for name, value in public.items()
        if callable(value) and str(getattr(value, "__module__", "")).startswith("xpr") and not _text(value)
    ]
    assert not bare, f"{face}: public names without a docstring"
    assert _text(module)


def _text(value):
    return (getattr(value, "__doc__", None) or "").strip()
