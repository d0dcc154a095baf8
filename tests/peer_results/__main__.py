"""`python -m tests.peer_results [FILE...]`: writes what jax gives in these files of tests, or all that have results."""

import sys

import pytest

from tests import peer_results
from tests.peer import JAX


def main(files: list[str]) -> int:
    if JAX is None:
        print("jax is not installed: pip install -e '.[peer]'")
        return 1
    files = files or [f"tests/{path.stem}.py" for path in sorted(peer_results.HERE.glob("*.txt"))]
    peer_results.written = {}
    code = pytest.main(["-q", "-p", "no:xdist", *files])
    if code == 0:
        for file, lines in peer_results.written.items():
            peer_results.write(file, lines)
            print(f"{peer_results.path_of(file).name}: {len(lines)} results")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
