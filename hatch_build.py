"""What the package is built with, where there is a C compiler: functions that programs call (xpr/backend/c/), and the
fast paths of pytrees, eager operations and jitted calls (`MODULES`), which need Python's headers, too; and its URLs."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

FOLDER = Path("xpr", "backend", "c")
LIBRARY = FOLDER / "native.so"
MODULES = [
    Path("xpr", "_trees.c"),
    Path("xpr", "backend", "_waiting.c"),
    Path("xpr", "compile", "_known_calls.c"),
    Path("xpr", "compile", "_known_operations.c"),
]


# Without these GCC vectorizes no loop with roots or comparisons; the last one is for formulas that shift bits out.
OPTIONS = ["-O3", "-fPIC", "-pthread", "-fno-math-errno", "-fno-trapping-math", "-fwrapv"]


def compiled(root: str, sources: list[Path], target: Path, *options: str) -> bool:
    """Makes a library beside its sources; returns whether it could be made."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or not sys.platform.startswith("linux"):
        return False

    def run(*arguments: str) -> None:
        subprocess.run([compiler, *OPTIONS, *options, *arguments], check=True, capture_output=True, text=True)

    unfinished = Path(root, target.parent, f"{os.getpid()}.so")  # processes may have the one that is there in use
    try:
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as threads:
            objects = [str(Path(folder, source.with_suffix(".o").name)) for source in sources]
            list(threads.map(lambda source, to: run("-c", str(Path(root, source)), "-o", to), sources, objects))
            run("-shared", *objects, "-lm", "-o", str(unfinished))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"xpr is built without {target}: {getattr(error, 'stderr', error)}", file=sys.stderr)
        return False
    unfinished.replace(Path(root, target))
    return True


class CustomBuildHook(BuildHookInterface):
    """Adds the library to the wheel, which is then one for this platform."""

    def initialize(self, version: str, build_data: dict) -> None:
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        sources = sorted(path.relative_to(self.root) for path in Path(self.root, FOLDER).glob("*.c"))
        if compiled(self.root, sources, LIBRARY):
            build_data["artifacts"].append(str(LIBRARY))
            build_data["tag"] = f"py3-none-{platform}"
        for source in MODULES:
            module = source.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
            if compiled(self.root, [source], module, f"-I{sysconfig.get_path('include')}"):
                build_data["artifacts"].append(str(module))
                python = f"cp{sys.version_info.major}{sys.version_info.minor}"
                build_data["tag"] = f"{python}-{python}-{platform}"
        build_data["pure_python"] = "tag" not in build_data


class UrlsOfHost(MetadataHookInterface):
    """Fills [project.urls] where a workflow builds the package, which knows the host of the repository."""

    def update(self, metadata: dict) -> None:
        server, repository = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
        if not (server and repository):
            metadata["urls"] = {}
            return
        home = f"{server}/{repository}"
        metadata["urls"] = {
            "Homepage": home,
            "Documentation": f"{home}/tree/main/docs",
            "Changelog": f"{home}/blob/main/CHANGELOG.md",
            "Issues": f"{home}/issues",
        }
