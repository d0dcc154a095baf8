"""Importing the library collects no garbage, and leaves Python's collector as it was."""

import gc
import subprocess
import sys
import weakref

import pytest

from xpr.garbage_collection import without_collection

pytestmark = pytest.mark.quick


def test_an_import_runs_no_collection_and_leaves_the_collector_on():
    # Python's modules that are imported first have a few; in all there were 120.
    code = """
import gc
collections = []
gc.callbacks.append(lambda phase, about: collections.append(phase))
import xpr
print(collections.count("start") < 10, gc.isenabled(), gc.get_freeze_count(), gc.get_count()[0] < 1000)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "0", "True"]


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_is_on_or_off_as_before(is_enabled):
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        with pytest.raises(ImportError), without_collection():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_what_the_user_froze_stays_so():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with without_collection():
            pass
        assert gc.get_freeze_count() == frozen > 0
    finally:
        gc.unfreeze()


def test_cycles_from_before_an_import_are_collected_later():
    class Node:
        pass

    node = Node()
    node.itself = node
    collected = []
    weakref.finalize(node, collected.append, True)
    with without_collection():
        del node
    assert not collected
    gc.collect()
    assert collected
