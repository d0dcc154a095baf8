"""Importing collects no garbage, tracing little, and both leave Python's collector as it was."""

import gc
import subprocess
import sys
import weakref

import pytest

import xpr
from xpr.garbage_collection import RARE, with_rare_collections, without_collections

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
        with pytest.raises(ImportError), without_collections():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_what_the_user_froze_stays_so():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with without_collections():
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
    with without_collections():
        del node
    assert not collected
    gc.collect()
    assert collected


def test_there_are_few_collections_while_a_function_is_traced():
    generations = []

    def f(x):
        gc.callbacks.append(count)
        for _ in range(1000):
            x = xpr.numpy.sin(x) + x
        gc.callbacks.remove(count)
        return x

    def count(phase, about):
        generations.append(about["generation"])

    xpr.make_jaxpr(f)(1.0)
    assert len(generations) <= 2  # the start and the end of one; without the decorator there are 30


def test_thresholds_are_as_before_after_a_trace_and_after_errors():
    before = gc.get_threshold()

    @with_rare_collections
    def fails():
        assert gc.get_threshold() == (RARE, *before[1:])
        with_rare_collections(lambda: None)()
        assert gc.get_threshold()[0] == RARE  # the outer call restores it
        raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert gc.get_threshold() == before


@pytest.mark.parametrize("mine", [(0, 5, 5), (RARE + 1, 5, 5), (300, 5, 5), (100_000, 20, 20)])
def test_thresholds_of_the_user_stay(mine):
    before = gc.get_threshold()
    try:
        gc.set_threshold(*mine)
        assert with_rare_collections(gc.get_threshold)()[1:] == mine[1:]
        assert gc.get_threshold() == mine
        gc.set_threshold(*before)
        with_rare_collections(lambda: gc.set_threshold(*mine))()  # set by the function itself
        assert gc.get_threshold() == mine
    finally:
        gc.set_threshold(*before)


def test_other_thresholds_that_are_set_while_a_function_is_traced_stay():
    before = gc.get_threshold()
    try:
        xpr.make_jaxpr(lambda: gc.set_threshold(gc.get_threshold()[0], 3, 4))()
        assert gc.get_threshold() == (before[0], 3, 4)
    finally:
        gc.set_threshold(*before)
