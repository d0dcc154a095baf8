"""All that needs eight devices, in two processes that have as many; see tests/eight_devices."""

import pytest

from tests import eight_devices

# All files of cases, but one that a quick test runs: in two parts, which take as long as each other.
PARTS = {
    "meshes": (
        "law_cases.py", "explicit_cases.py", "sharding_cases.py", "mesh_cases.py", "sums_cases.py", "halo_cases.py",
        "default_device_cases.py", "partitioning_cases.py", "linalg_cases.py", "key_cases.py", "ref_cases.py",
    ),
    "maps": (
        "shard_map_cases.py", "nesting_cases.py", "collective_cases.py", "pmap_cases.py", "callback_cases.py",
        "checkpoint_cases.py", "export_cases.py", "communication_cases.py", "page_cases.py",
        "colocated_cases.py",
    ),
}  # fmt: skip
OF_QUICK_TESTS = ("cost_cases.py",)  # test_cost.py runs them


@pytest.mark.parametrize("part", PARTS)
def test_on_eight_devices(part):
    eight_devices.run(*PARTS[part])


def test_all_files_are_run():
    files = [*PARTS["meshes"], *PARTS["maps"], *OF_QUICK_TESTS]
    assert sorted(files) == sorted(path.name for path in eight_devices.HERE.glob("*_cases.py"))
