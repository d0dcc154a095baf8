"""The page about several devices."""

import sys

from tests.test_docs import ROOT, Page


def test_page(monkeypatch):
    page = Page("docs/many-devices.md")
    monkeypatch.setitem(sys.modules, "__main__", page.module)
    page.run((ROOT / page.name).read_text())
