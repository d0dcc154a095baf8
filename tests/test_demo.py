"""The demo: runs to the end, says what it promises, learns, and draws its curves."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

from xpr.demo import plot
from xpr.demo.__main__ import main
from xpr.demo.data import load_digits, split
from xpr.demo.progress import progress
from xpr.demo.report import picture
from xpr.demo.train import train

pytestmark = pytest.mark.quick


def test_the_data_is_what_the_source_says():
    images, labels = load_digits()
    assert images.shape == (1797, 64) and images.dtype == np.float32
    assert images.min() == 0 and images.max() == 1
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_split_parts_the_data_and_follows_the_seed():
    training, held_out = split(load_digits(), seed=3)
    assert len(training.labels) == 1437 and len(held_out.labels) == 360
    assert training.images.sum() + held_out.images.sum() == pytest.approx(load_digits().images.sum(), rel=1e-5)
    assert np.array_equal(training.labels, split(load_digits(), seed=3)[0].labels)
    assert not np.array_equal(training.labels, split(load_digits(), seed=4)[0].labels)


def test_the_network_reaches_97_percent():
    *_, last = train(*split(load_digits(), seed=0), epochs=15, seed=0)
    assert last.test_accuracy >= 0.97


def test_the_demo_shows_jaxprs_progress_and_a_table(capsys):
    assert main(["--epochs", "2", "--seed", "1"]) == 0
    text = capsys.readouterr().out

    assert "1437 images to train on, 360 held out" in text
    loss_jaxpr, gradient_jaxpr = text.split("{ lambda ; a:f32[64,256]")[1:]
    assert "dot_general" in loss_jaxpr and "dot_general" in gradient_jaxpr
    assert len(gradient_jaxpr) > len(loss_jaxpr)

    assert "   1/2  loss " in text and "   2/2  loss " in text
    assert "\r" not in text and "\x1b" not in text
    assert re.findall(r"^ +(\d+) .+% +.+% .+$", text[text.index("epoch   training") :], re.MULTILINE) == ["0", "1", "2"]
    assert "Held-out accuracy: " in text and "after 2 epochs" in text


def test_the_plot_is_written(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "curves.png"
    assert main(["--epochs", "1", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert f"Wrote {path}" in capsys.readouterr().out


def test_a_plot_without_matplotlib_is_refused_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    assert main(["--plot", "curves.png"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and "pip install matplotlib" in captured.err


def test_a_plot_that_cannot_be_written_is_refused_before_training(tmp_path):
    pytest.importorskip("matplotlib")
    assert "there is no folder" in plot.problem_with(tmp_path / "nowhere" / "curves.png")
    assert "must end in one of" in plot.problem_with(Path("curves.xyz"))
    assert plot.problem_with(Path("curves.svg")) is None


def test_epochs_must_be_positive(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--epochs", "0"])
    assert "at least 1 is needed" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_progress_bar_is_redrawn_on_a_terminal_and_plain_elsewhere():
    for out, ends in (Terminal(), "\r"), (io.StringIO(), "\n"):
        assert list(progress(iter("abcd"), 4, str.upper, out)) == list("abcd")
        assert out.getvalue().count(ends) == 4
    assert "[##############################]    4/4  D" in progress_text(Terminal())
    assert progress_text(io.StringIO()).splitlines()[-1].startswith("   4/4  D")


def progress_text(out):
    list(progress("abcd", 4, str.upper, out))
    return out.getvalue()


def test_pictures_stand_side_by_side():
    white, black = np.zeros(64), np.ones(64)
    lines = picture(white, black).splitlines()
    assert lines == [" " * 19 + "@" * 16] * 8
