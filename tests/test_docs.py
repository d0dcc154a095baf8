"""The pages run as they stand: README.md and docs/, every block of code in order, its output compared with the page's.

* A ```python block with `>>>` prompts is a doctest session; without them it is a script, and a ```text block right
  after it holds what it prints, and, where it raises, the last lines of the traceback. A page's blocks share names.
* Numbers with a decimal point may differ in the last digits, which depend on the machine; all else must be equal.
* A ```python block with `<!-- launched: -n 2 -->` before it is a script that `python -m xpr.launch` runs with these
  options; the ```text block holds what each process prints, in their order.
* Any other block, and one that can't be run here, has `<!-- not run: reason -->` before it.
"""

import contextlib
import doctest
import importlib
import io
import linecache
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs.hooks.public_names import FACES, public_names
from tests import error_page, test_structure, vocabulary
from tests.processes import environment
from tests.same_text import OutputChecker, same_text

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("**/*.md")))]
ON_EIGHT_DEVICES = [
    "docs/many-devices.md",
    "docs/saving-arrays.md",
    "docs/training-on-many-devices.md",
]
FENCE = re.compile(r"(?P<note><!--(?P<comment>.*?)-->\n)?^```(?P<language>\S*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass
class Block:
    """A fenced block: its language, its text, the number of its first line, and the comment before it."""

    language: str
    text: str
    line: int
    comment: str
    follows: bool  # right after the block before it, with nothing but blank lines between


def blocks_of(text: str) -> Iterator[Block]:
    end = 0
    for match in FENCE.finditer(text):
        follows = not text[end : match.start()].strip()
        line = text.count("\n", 0, match.start("text")) + 1
        yield Block(match["language"], match["text"], line, (match["comment"] or "").strip(), follows)
        end = match.end()


class Page:
    """Runs blocks one after another in one module, as a reader would who types them in."""

    def __init__(self, name: str):
        self.name = name
        self.module = types.ModuleType("__main__")

    def run(self, text: str) -> None:
        blocks = list(blocks_of(text))
        for block, following in zip(blocks, [*blocks, None][1:], strict=True):
            is_output = following is not None and following.language == "text" and following.follows
            self.run_block(block, following if is_output else None)

    def run_block(self, block: Block, output: Block | None) -> None:
        where = f"{self.name}:{block.line}"
        if block.comment.startswith("not run:"):
            assert len(block.comment) > len("not run: "), f"{where}: a block that is not run needs a reason"
        elif block.language == "python" and ">>>" in block.text:
            self.session(block)
        elif block.language == "python":
            if block.comment.startswith("launched:"):
                printed = launched(block)
            else:
                printed = self.script(block, raises=output is not None)
            shown = output.text if output else ""
            if not same_text(shown, printed):
                assert shown == printed, f"{where}: the page does not show this output"
        elif block.language == "text":
            assert block.follows, f"{where}: a text block is the output of the script right before it"
        else:
            pytest.fail(f"{where}: a {block.language or 'nameless'} block needs <!-- not run: reason -->")

    def script(self, block: Block, raises: bool) -> str:
        """What a script prints, with the last lines of its traceback if it may raise."""
        name = "example.py"  # what messages that name the user's line will say
        linecache.cache[name] = (len(block.text), None, block.text.splitlines(True), name)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            try:
                exec(compile(block.text, name, "exec"), self.module.__dict__)
            except Exception as error:
                if not raises:
                    raise
                out.write("".join(traceback.format_exception_only(error)))
        return out.getvalue()

    def session(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(block.text, {}, Path(self.name).stem, self.name, block.line - 1)
        test.globs = self.module.__dict__
        report = io.StringIO()
        failed, _ = doctest.DocTestRunner(OutputChecker(), verbose=False).run(test, out=report.write, clear_globs=False)
        assert not failed, report.getvalue()


def launched(block: Block) -> str:
    """What several processes print, one after the other."""
    options = shlex.split(block.comment.removeprefix("launched:"))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(block.text)
        command = [sys.executable, "-m", "xpr.launch", *options, "train.py"]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment(PYTHONPATH=path),
            timeout=60,
            check=False,
        )
    lines = sorted(done.stdout.splitlines(), key=lambda line: line.partition("]")[0])
    return "".join(f"{line}\n" for line in [*lines, *done.stderr.splitlines()])


@pytest.mark.parametrize("name", [name for name in PAGES if name not in ON_EIGHT_DEVICES])
def test_page(name, monkeypatch):
    page = Page(name)
    monkeypatch.setitem(sys.modules, "__main__", page.module)
    page.run((ROOT / name).read_text())


@pytest.mark.parametrize("name", PAGES)
def test_every_fence_is_seen(name):
    text = (ROOT / name).read_text()
    assert len(re.findall("```", text)) == 2 * len(list(blocks_of(text)))


def test_local_links_lead_somewhere():
    for name in [*PAGES, "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"]:
        page = ROOT / name
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", FENCE.sub("", page.read_text())):
            is_made = target.removeprefix("reference/").removesuffix(".md") in FACES  # by docs/hooks
            assert is_made or (page.parent / target).exists(), f"{name}: {target}"


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(f"docs/{page}" for page in listed if not page.startswith("reference/")) == PAGES[1:]


def test_architecture_has_the_whole_picture():
    """It names every folder of the library, and links every page of docs/design/."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    folders = [path.parent.name for path in (ROOT / "xpr").glob("*/__init__.py")]
    pages = [name for name in PAGES if name.startswith("docs/design/")]
    assert not [name for name in folders if f"`{name}/`" not in text]
    assert not [name for name in pages if f"]({name})" not in text]


def test_the_page_of_primitives_is_true():
    assert vocabulary.PAGE.read_text() == vocabulary.page(), "it is out of date: python -m tests.vocabulary"


class TestThePageOfErrors:
    """The page follows xpr/errors.py; what its examples print is compared where all pages are run."""

    def test_it_is_true(self):
        text = error_page.PAGE.read_text()
        assert text == error_page.with_sentences(text), "it is out of date: python -m tests.error_page"

    def test_the_tree_is_that_of_the_classes(self):
        assert error_page.drawn() == error_page.defined()

    @pytest.mark.parametrize("name", error_page.errors.__all__)
    def test_every_exception_has_an_example(self, name):
        _, heading, section = error_page.PAGE.read_text().partition(f"### {name}\n")
        assert heading and "```python\n" in section.partition("\n#")[0]


# In half the time of `mkdocs build --strict`: without an index of words, and without formatting signatures, for each of
# which a process would be started.
BUILD = """
import gc, logging, sys
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.utils import yaml_load

gc.disable()
logging.basicConfig(level=logging.WARNING)
sys.modules["black"] = sys.modules["ruff"] = None
with open("mkdocs.yml") as file:
    plugins = [plugin for plugin in yaml_load(file)["plugins"] if plugin != "search"]
build(load_config("mkdocs.yml", site_dir=sys.argv[1], strict=True, plugins=plugins))
"""


def test_the_site_builds_and_has_every_public_name(tmp_path):
    """Warnings are errors: links that lead nowhere, names that don't resolve, public names without a docstring."""
    if find_spec("mkdocstrings_handlers") is None:
        pytest.skip("mkdocs and mkdocstrings are not installed: the extra `docs`")
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "index.html").exists()
    for face in FACES:
        text = (tmp_path / "reference" / face / "index.html").read_text()
        entries = set(re.findall(rf'id="{re.escape(face)}\.(\w+)"', text))
        missing = set(public_names(importlib.import_module(face))) - entries
        assert not missing, f"{face}: names without an entry"
    assert 'id="xpr.Array.reshape"' in (tmp_path / "reference" / "xpr" / "index.html").read_text()


def test_every_public_module_is_in_the_reference():
    assert not set(test_structure.FACES) - set(test_structure.COMMANDS) - set(FACES)


def test_public_names():
    """As type checkers see them: what is imported for the file's own use is private."""
    names = public_names(importlib.import_module("xpr"))
    assert {"grad", "remat", "P"} <= set(names)
    assert not {"numpy", "importlib", "Any", "TYPE_CHECKING"} & set(names)


def test_two_commands_do_all_the_set_up():
    """One for the demo, one for the tests; CI runs the second one as it stands."""
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.M)
    demo, tests = (command.split(" && ")[-1] for command in commands)
    assert shlex.split(demo)[1:] == ["-m", "xpr.demo"]
    assert shlex.split(tests)[1:3] == ["-m", "pytest"]
    assert "README.md" in (ROOT / ".ci" / "run").read_text()


class TestTheRunner:
    """Pages that are wrong are found out."""

    @pytest.mark.parametrize(
        "text",
        [
            "```python\nprint(1)\n```\n```text\n2\n```\n",
            "```python\nprint(1)\n```\n",
            "```python\n>>> 1 + 1\n3\n```\n",
            "```bash\nls\n```\n",
            "<!-- not run: -->\n```bash\nls\n```\n",
            "```python\nprint(1.5)\n```\n```text\n1.51\n```\n",
            "```python\nprint((3,))\n```\n```text\n(4,)\n```\n",
            "```python\n>>> 1.5\n1.51\n```\n",
            "```python\nprint(1)\n```\nwords between\n```text\n1\n```\n",
        ],
    )
    def test_wrong_pages_fail(self, text):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            self.run(text)

    def test_right_pages_pass(self):
        self.run("```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n```python\n>>> x + 1\n2\n```\n")
        self.run("```python\nprint([0.1234567, 1e-9 + 0])\n```\n```text\n[0.1234568, 1e-09]\n```\n")
        self.run("```python\n>>> 0.1234567\n0.1234568\n```\n")
        self.run("<!-- not run: for fun -->\n```bash\nls\n```\n")

    def run(self, text):
        Page("a page").run(text)
