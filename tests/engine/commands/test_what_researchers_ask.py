"""Commands of those who plan drawn topologies: how to cite, what can be drawn, another parallelism."""

import re
import shlex
from pathlib import Path

import pytest

from penstock.engine.commands import main as module
from penstock.plans.generate.layered import SHAPES
from penstock.plans.installation import own_version

ROOT = Path(__file__).parents[3]


def penstock(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        module.app(shlex.split(command), prog_name="penstock")
    said = capsys.readouterr()
    assert not stopped.value.code, said.err
    return said.out


def test_cite_says_what_the_citation_file_says(capsys):
    entry, sentence = (penstock(f"cite --format {form}", capsys) for form in ("bibtex", "apa"))
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for key in ("title", "version", "  - name"):
        found = re.search(rf'^{key}: "?(.*?)"?$', text, re.MULTILINE)
        assert found is not None
        assert found[1] in entry
        assert found[1] in sentence
    assert own_version() in entry
    assert "doi" not in entry.lower()


def test_the_list_shows_every_shape_with_its_picture(capsys):
    shown = penstock("generate --list", capsys)
    for shape in SHAPES:
        assert f"\n{shape.name}\n" in shown
        assert shape.picture.strip("\n").splitlines()[0] in shown


def test_another_parallelism_is_another_version_and_diff_counts_what_it_changes(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    penstock("generate random --topologies 5 --seed 1 --out fleet.jsonl", capsys)
    versions = [
        penstock(f"plan fleet.jsonl --out store {option}", capsys) for option in ("", "--parallelism 16", "")
    ]
    assert [re.findall(r"version (\d+)", said)[:1] for said in versions] == [["1"], ["2"], ["3"]]
    shown = penstock("diff store@1 store@2", capsys)
    for what in ("tasks", "slots", "channels", "network buffers"):
        assert re.search(rf"{what}.*\d", shown), what
