"""Docs, docstrings, comments and messages are free of the phrases that reviews asked to drop."""

import pytest

from tests.project.plain_words import ROOT, clumsy_phrases

WRITTEN_ANEW = (
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("*.md"))),
    "benchmarks",
    "docs",
    "engine",
    "operators",
    "penstock",
    "plans",
    "tests",
)


def test_no_clumsy_phrases():
    found = list(clumsy_phrases([ROOT / path for path in WRITTEN_ANEW]))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ('"""One row a vertex."""', ["'row a vertex'"]),
        ('"""A part in the\nplace of another."""', ["'in the place of'"]),
        ("# Stop behind the layer.\nleft = 1  # nothing is left behind", ["'behind'"]),
        ("behind = one_a_row = 1", []),
        ('"""Rows a process loops over; so many that a loop is slow; `one a row`."""', []),
    ],
)
def test_finds_phrases_in_prose_only(tmp_path, monkeypatch, text, phrases):
    monkeypatch.setattr("tests.project.plain_words.ROOT", tmp_path)
    (tmp_path / "module.py").write_text(text + "\n", encoding="utf-8")
    assert [line.split(": ")[1].split(" (")[0] for line in clumsy_phrases([tmp_path])] == phrases
