"""`python -m tests.peer_results [FILE...]`: writes what jax gives in these files of tests, or all that have results."""

import subprocess
import sys

import pytest

from tests import eight_devices, peer_results
from tests.peer import JAX


def main(files: list[str]) -> int:
    if JAX is None:
        print("jax is not installed: pip install -e '.[peer]'")
        return 1
    files = files or [str(peer_results.path_of_tests(path.stem)) for path in sorted(peer_results.HERE.glob("*.txt"))]
    on_eight_devices = [file for file in files if file.endswith("_cases.py")]
    if on_eight_devices and JAX.device_count() != 8:
        command = [sys.executable, "-m", "tests.peer_results", *on_eight_devices]
        code = subprocess.run(command, env=eight_devices.environment(), check=False).returncode
        files = [file for file in files if file not in on_eight_devices]
        if code or not files:
            return code
    peer_results.written = {}
    code = pytest.main(["-q", "-p", "no:xdist", *files])
    if code == 0:
        for file, lines in peer_results.written.items():
            peer_results.write(file, lines)
            print(f"{peer_results.path_of(file).name}: {len(lines)} results")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
