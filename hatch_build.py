"""What the package is built with: the functions in C of xpr/backend/c/, where there is a C compiler, and its URLs."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

FOLDER = Path("xpr", "backend", "c")
LIBRARY = FOLDER / "native.so"


def compiled(root: str) -> bool:
    """Makes the library beside its sources; returns whether it could be made."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or not sys.platform.startswith("linux"):
        return False
    sources = sorted(map(str, Path(root, FOLDER).glob("*.c")))
    unfinished = Path(root, FOLDER, f"{os.getpid()}.so")  # processes may have the one that is there in use
    command = [compiler, "-O3", "-shared", "-fPIC", "-pthread", *sources, "-o", str(unfinished)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"xpr is built without its functions in C: {getattr(error, 'stderr', error)}", file=sys.stderr)
        return False
    unfinished.replace(Path(root, LIBRARY))
    return True


class CustomBuildHook(BuildHookInterface):
    """Adds the library to the wheel, which is then one for this platform."""

    def initialize(self, version: str, build_data: dict) -> None:
        if compiled(self.root):
            build_data["artifacts"].append(str(LIBRARY))
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


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
