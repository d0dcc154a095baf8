"""The pages about several devices."""

import sys

import pytest

from tests.test_docs import ON_EIGHT_DEVICES, ROOT, Page


@pytest.mark.parametrize("name", ON_EIGHT_DEVICES)
def test_page(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # for pages that write files
    page = Page(name)
    monkeypatch.setitem(sys.modules, "__main__", page.module)
    page.run((ROOT / page.name).read_text())
