"""The shape of the library: floors, dependencies, primitives with all their rules and rows, documented public names."""

import ast
import functools
import graphlib
import importlib
import io
import pkgutil
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import xpr
from tests.ops import table
from xpr.core.primitive import SLOTS, Primitive, Unsupported, all_primitives

pytestmark = pytest.mark.quick

ROOT = Path(xpr.__file__).parent

# From the ground up, as ARCHITECTURE.md draws them; "" is the public face, xpr/__init__.py.
FLOORS = [
    ("garbage_collection",), ("errors",), ("notices",), ("deprecation",), ("config", "config_contexts"),
    ("key_types", "dtypes"), ("protocol_buffers",),
    ("optree_kept", "tree_nodes", "tree_differences", "tree_proto", "tree_def", "tree", "tree_util"),
    ("dimensions",), ("core",), ("text",), ("backend",), ("primitives",), ("transforms",), ("passes",), ("compile",),
    ("control",),
    ("numpy",), ("random",), ("nn",), ("scipy",), ("artifacts",), ("fingerprint",), ("api",), ("export",),
    ("series", "inversion", "sparsity"), ("lax",), ("extend",),
    ("inspect",), ("jaxpr",), ("storage",),
    ("ad", "ad_checkpoint", "dlpack", "ffi", "flatten_util", "image", "ops", "ref", "custom_derivatives",
     "custom_batching", "debug", "checkify", "doctor", "memory", "monitoring", "profiler", "sharding", "stages",
     "typing", "api_util", "interpreters"),
    ("distributed", "multihost_utils", "launch"), ("experimental", "example_libraries", "tools"),
    ("testing",), ("",), ("alias",), ("as_jax",), ("demo",),
]  # fmt: skip
FLOOR_OF = {name: number for number, names in enumerate(FLOORS) for name in names}

IMPORTS_IN_FUNCTIONS = {
    "xpr.api.stages": "what solves equations of dimensions takes 2 ms to import, and few programs have symbolic ones",
    "xpr.api.compiled": "what writes programs to files takes 10 ms to import, and only save asks for it",
    "xpr.api.doctor": "importlib.metadata takes 5 ms to import, and only the doctor asks for it",
    "xpr.api.jit": "rerolling takes 30 ms to import, and only the compiler option asks for it",
    "xpr.backend.compiler": "the disk cache takes 10 ms to import, and most processes never use it",
    "xpr.numpy.einstein": "opt_einsum takes 5 ms to import, and only einsum of three operands or more asks for it",
    "xpr.numpy.ufunc_class": "scan takes 15 ms to import, and only methods that loop ask for it",
    "xpr.backend.processes": "TCP connections take 15 ms to import, and a process by itself has none",
    "xpr.backend.program_log": "hashlib takes 3 ms to import, and a process by itself logs no programs",
    "xpr.config": "logging takes 4 ms to import, and most processes log nothing",
    "xpr.profiler": "a server takes 15 ms to import, and only links to Perfetto ask for it",
    "xpr.demo.plot": "matplotlib is an optional extra",
}


def _module_name(path):
    parts = ("xpr", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCE_OF = {_module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


@functools.cache
def tree_of(module):
    """The syntax tree of a module of xpr."""
    return ast.parse(SOURCE_OF[module].read_text())


def _statements(node, inside=False):
    """Import statements, those for type checkers alone excepted, each with whether it is inside a function."""
    for child in _within(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        yield from _statements(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def _within(node):
    """The statements of a statement, and what else holds some; not its expressions."""
    for block in ("body", "orelse", "handlers", "finalbody", "cases"):
        yield from getattr(node, block, ())


def _imported(statement):
    """The modules a statement names: `from xpr import tree` names xpr.tree, `from xpr.core import Var` xpr.core."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    assert statement.level == 0, f"imports are absolute: {ast.unparse(statement)}"
    whole = [f"{statement.module}.{alias.name}" for alias in statement.names]
    return [name if name in SOURCE_OF else statement.module for name in whole]


@functools.cache
def imports():
    """What each module imports, by name, with the line."""
    return {
        module: [(name, each.lineno) for each, _ in _statements(tree_of(module)) for name in _imported(each)]
        for module in SOURCE_OF
    }


def _floor(module):
    name = [*module.split("."), ""][1]
    assert name in FLOOR_OF, f"{module} stands on no floor: name it in ARCHITECTURE.md and in this test"
    return FLOOR_OF[name]


def test_imports_go_down():
    wrong = [
        f"{module}:{line} imports {name}"
        for module, each in imports().items()
        for name, line in each
        if name.split(".")[0] == "xpr" and _floor(name) > _floor(module)
    ]
    assert not wrong, "imports of floors above:\n" + "\n".join(wrong)


def test_files_of_a_floor_have_an_order():
    graph = {
        module: {name for name, _ in each if name in SOURCE_OF and _floor(name) == _floor(module)}
        for module, each in imports().items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail("files import each other in a circle: " + " imports ".join(reversed(error.args[1])))


def test_imports_stand_at_the_top():
    inside = {module for module in SOURCE_OF for _, within in _statements(tree_of(module)) if within}
    assert inside == IMPORTS_IN_FUNCTIONS.keys() & SOURCE_OF.keys(), (
        "imports inside functions need a reason in this test"
    )


def test_nothing_imports_jax_or_scipy():
    found = {
        f"{module}:{line}"
        for module, each in imports().items()
        for name, line in each
        if name.split(".")[0] in ("jax", "scipy")
    }
    assert not found


def test_jaxlib_is_used_in_the_backend_alone():
    users = {module for module, each in imports().items() for name, _ in each if name.split(".")[0] == "jaxlib"}
    assert users and all(module.startswith("xpr.backend.") for module in users)


def test_import_is_light():
    """Importing xpr pulls in neither what it compares itself with nor what it needs only now and then."""
    heavy = ["jax", "lark", "scipy", "matplotlib", "hypothesis", "pytest"]
    heavy += ["hashlib", "logging", "numpy.fft", "numpy.polynomial", "socket"]  # 40 ms
    code = f"import sys, xpr; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("package", ["numpy", "nn"])
def test_names_that_are_loaded_when_asked_for_are_among_all(package):
    """In a new process, in which nobody has asked for one yet: `fft` and `gcd` in xpr.numpy, `nn.initializers`."""
    code = f"""
import xpr.{package} as module
before = {{*vars(module)}}
later = {{*dir(module)}} - before
from xpr.{package} import *
print(len(later) > 0, *sorted(later - {{*globals()}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"]


# Slices with computed bounds that take no list of operands or results apart: those of equations, of shapes, of users'
# arguments. Lists of operands are split by groups (xpr/control/groups.py).
COMPUTED_SLICES = {
    "xpr.control.groups": 2, "xpr.control.reroll.groups": 1,
    "xpr.control.reroll.reroll": 5, "xpr.control.scan.mapping": 2,
    "xpr.series.laplacian": 1, "xpr.series.power_series": 1, "xpr.series.taylor": 1,
    "xpr.sparsity.jacobian": 1, "xpr.sparsity.propagation": 2,
    "xpr.control.devices.shard_map": 3, "xpr.control.devices.xla_pmap": 4,
}  # fmt: skip


def _is_computed(bound):
    return not isinstance(bound.operand if isinstance(bound, ast.UnaryOp) else bound, ast.Constant | None)


def test_rules_split_lists_by_groups():
    slices = {
        module: sum(_is_computed(node.lower) or _is_computed(node.upper) for node in ast.walk(tree_of(module))
                    if isinstance(node, ast.Slice))
        for module in SOURCE_OF
        if module.startswith(("xpr.control.", "xpr.series.", "xpr.inversion.", "xpr.sparsity."))
    }  # fmt: skip
    more = {module: count for module, count in slices.items() if count > COMPUTED_SLICES.get(module, 0)}
    assert not more, f"slices with computed bounds; use split_list or Groups of xpr.control.groups: {more}"


# -- Primitives


@pytest.fixture(scope="module")
def primitives():
    for module in pkgutil.walk_packages([str(ROOT)], "xpr."):
        if not module.name.endswith("__main__") and module.name != "xpr.as_jax":
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
    """`elementwise` gathers all primitives of their files, and is where all but `lax` has them from."""
    face = "xpr.primitives.elementwise"
    files = {name for name, _ in imports()[face]} - {"xpr.primitives.elementwise_rules"}
    around = {module for module, each in imports().items() if files & {name for name, _ in each}}
    assert around <= {face, "xpr.lax", *files}
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


def _families(face):
    """The modules of which a face imports all public names."""
    nodes = [node for node in tree_of(face).body if isinstance(node, ast.ImportFrom)]
    return [node.module for node in nodes if node.names[0].name == "*"]


@pytest.mark.parametrize(
    "face", [m for m, path in SOURCE_OF.items() if re.search(r"(?m)^from \S+ import \*", path.read_text())]
)
def test_families_name_what_their_faces_take(face):
    """By `__all__`, so that no helper's name becomes public; and no name is that of two families."""
    families = {family: importlib.import_module(family) for family in _families(face)}
    assert not [family for family, module in families.items() if not hasattr(module, "__all__")]
    names = [name for module in families.values() for name in module.__all__]
    assert not sorted({name for name in names if names.count(name) > 1})
    public = vars(importlib.import_module(face))
    for family, module in families.items():
        assert not [name for name in module.__all__ if public[name] is not getattr(module, name)], f"{face}: {family}"


COMMANDS = ["xpr.launch", "xpr.tools"]  # which have their help, and no page in the reference
FACES = [
    "xpr", "xpr.numpy", "xpr.numpy.linalg", "xpr.numpy.fft", "xpr.lax", "xpr.lax.linalg", "xpr.random", "xpr.nn",
    "xpr.nn.initializers", "xpr.tree", "xpr.tree_util", "xpr.core", "xpr.extend", "xpr.jaxpr", "xpr.ad_checkpoint",
    "xpr.custom_derivatives", "xpr.custom_batching", "xpr.debug", "xpr.sharding", "xpr.distributed",
    "xpr.multihost_utils", "xpr.storage", "xpr.checkify", "xpr.testing", "xpr.errors", "xpr.dtypes",
    "xpr.doctor", "xpr.monitoring", "xpr.profiler", "xpr.dlpack", "xpr.experimental", "xpr.export", "xpr.ffi",
    "xpr.ref", "xpr.ad", "xpr.experimental.custom_partitioning", *COMMANDS,
]  # fmt: skip


@pytest.mark.parametrize("face", FACES)
def test_public_names_are_documented(face):
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


# What stands under names of jax's, and is reached by no other quick test.
NAMES_OF_JAX = [
    "xpr.experimental.checkify", "xpr.experimental.hijax", "xpr.experimental.layout", "xpr.experimental.sparse.bcoo",
    "xpr.experimental.mesh_utils", "xpr.experimental.array_serialization.pytree_serialization",
    "xpr.experimental.array_serialization.pytree_serialization_utils", "xpr.experimental.buffer_callback",
    "xpr.experimental.compilation_cache.compilation_cache", "xpr.experimental.compute_on",
    "xpr.experimental.key_reuse", "xpr.experimental.profiler", "xpr.experimental.rnn", "xpr.experimental.roofline",
    "xpr.experimental.scheduling_groups",
    "xpr.experimental.serialize_executable", "xpr.experimental.shard_alike", "xpr.experimental.topologies",
    "xpr.experimental.source_mapper", "xpr.experimental.xla_metadata",
    "xpr.experimental.multihost_utils", "xpr.experimental.pjit", "xpr.experimental.shard_map", "xpr.extend.backend",
    "xpr.extend.mlir", "xpr.extend.source_info_util", "xpr.interpreters.ad", "xpr.interpreters.batching",
    "xpr.interpreters.mlir", "xpr.interpreters.partial_eval", "xpr.interpreters.pxla", "xpr.interpreters.tables",
    "xpr.stages", "xpr.typing", "xpr.backend.device_class", "xpr.extend.xla",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES_OF_JAX)
def test_modules_under_names_of_jax_import(name):
    assert importlib.import_module(name).__doc__


# -- Files that are named in words

REPOSITORY = ROOT.parent
SOURCES = [
    path
    for folder in ("xpr", "tests", "docs", "benchmarks", "examples")
    for path in sorted((REPOSITORY / folder).rglob("*"))
    if path.suffix in (".py", ".md")
]
PAGES = [
    REPOSITORY / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "conftest.py", "hatch_build.py")
]
FILES = {path.relative_to(REPOSITORY).as_posix() for path in [*SOURCES, *PAGES]}
NAMED = re.compile(r"(?<![>\w./\\<{*$-])((?:[\w-]+/)*[\w-]+\.py)\b(?!\w*[(/:]\d)")
# What users write in examples, and files of other projects.
NOT_OURS = {"train.py", "script.py"}


def _words(path):
    """The sentences of a file: of a page all but its blocks of code, of a module its comments and docstrings."""
    text = path.read_text()
    if path.suffix == ".md":
        return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    comments = [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    docstrings = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    return "\n".join([*comments, *docstrings])


def _missing_files(text):
    names = {*NAMED.findall(text)} - NOT_OURS
    return [name for name in names if not any(f"/{file}".endswith(f"/{name}") for file in FILES)]


def test_files_that_are_named_exist():
    missing = [
        f"{path.relative_to(REPOSITORY)}: {name}"
        for path in [*SOURCES, *PAGES]
        if _missing_files(path.read_text())  # if not in all of the text, then not in its words
        for name in _missing_files(_words(path))
    ]
    assert not missing, "comments, docstrings or pages name files that are not there:\n" + "\n".join(missing)


# -- Tiers of tests


def test_quick_tests_touch_every_module():
    """By an example in its docstrings, as a face, or by an import of a test that is marked quick, at any depth."""
    texts = {module: path.read_text() for module, path in SOURCE_OF.items()}
    reached = {module for module, text in texts.items() if ">>>" in text} | {*FACES, *NAMES_OF_JAX}
    for path in (REPOSITORY / "tests").glob("test_*.py"):
        text = path.read_text()
        if "pytest.mark.quick" in text:
            reached |= {name for statement, _ in _statements(ast.parse(text)) for name in _imported(statement)}
            reached |= {*re.findall(r"\bxpr(?:\.\w+)+", text)}  # in programs that it runs
    todo = [*reached]
    while todo:
        module = todo.pop()
        more = {name for name, _ in imports().get(module, [])} | {module.rpartition(".")[0]}
        todo += more - reached
        reached |= more
    untouched = sorted(SOURCE_OF.keys() - reached)
    assert not untouched, f"no test that is marked quick touches {untouched}"


def test_tests_replace_no_private_names():
    private = re.compile(r"""setattr\([\w.]+, ["']_|setattr\(["'][\w.]*\._""")
    found = [path.name for path in sorted((REPOSITORY / "tests").rglob("*.py")) if private.search(path.read_text())]
    assert not found, (
        "tests replace names of modules that begin with _: what is replaced is part of what a module offers"
    )
