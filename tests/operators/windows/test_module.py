"""The mirror of pyflink.datastream.window has every public name of it."""

from pathlib import Path

import pytest

from penstock.datastream import window

API = Path(__file__).parents[2] / "pyflink" / "api.txt"
MODULE = "pyflink.datastream.window "
LINES = [line.removeprefix(MODULE) for line in API.read_text().splitlines() if line.startswith(MODULE)]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split(":")[0])
def test_public_name(line):
    name, _, members = line.partition(":")
    found = getattr(window, name.removesuffix("()"))
    assert name.removesuffix("()") in window.__all__
    for member in members.split():
        within = found
        for part in member.split("."):
            within = getattr(within, part)
