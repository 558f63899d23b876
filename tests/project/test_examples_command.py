"""`penstock examples` lists and copies what is bundled, and nothing is bundled that it does not list."""

import sys
from importlib.resources import files

import pytest

from penstock.engine.commands.examples import EXAMPLES
from penstock.engine.commands.main import main
from tests.as_command import as_command


@pytest.fixture
def examples(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["penstock", "examples", *arguments])
        with as_command(), pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return call


def test_every_bundled_file_is_listed(examples):
    bundled = {
        file.name
        for file in files("penstock.engine").joinpath("examples").iterdir()
        if "__" not in file.name and file.name != "demo.py"
    }
    assert bundled == set(EXAMPLES)
    code, said, _ = examples()
    assert code == 0
    assert [line.split("\t")[0] for line in said.splitlines()[1:]] == list(EXAMPLES)


def test_a_copy_can_be_run_and_is_not_overwritten(examples, tmp_path):
    code, said, beside = examples("word_count")
    assert (code, said) == (0, "wrote word_count.py\n")
    assert "penstock run word_count.py" in beside
    original = files("penstock.engine").joinpath("examples", "word_count.py").read_bytes()
    assert (tmp_path / "word_count.py").read_bytes() == original
    code, said, beside = examples("word_count.py")
    assert (code, said) == (2, "")
    assert "word_count.py exists already" in beside


def test_a_name_that_is_not_there_gets_the_list(examples):
    code, _, beside = examples("wordcount")
    assert code == 3
    assert "no bundled example is called 'wordcount'" in beside
    assert "word_count.py" in beside
