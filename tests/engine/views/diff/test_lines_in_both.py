"""Lines that both files hold are not read, and nothing else is found because of that."""

import json

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.library import sides_to_compare
from penstock.engine.views.diff.side_of_store import NO_LINES, lines_in_both

SOURCE, SINK = {"id": 1, "kind": "source", "name": "s"}, {"id": 2, "kind": "sink", "inputs": [1]}


def line(name, *names):
    """A topology line; each of `names` is a sink."""
    sinks = [{**SINK, "id": number, "name": one} for number, one in enumerate(names or ("k",), 2)]
    return json.dumps({"name": name, "transformations": [SOURCE, *sinks]})


def diff(*arguments):
    result = CliRunner().invoke(app, ["diff", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


FLEETS = {
    "in another order": ([line("a"), line("b"), line("c")], [line("c"), line("a"), line("b", "x")]),
    "all equal": ([line("a"), line("b")], [line("b"), line("a")]),
    "one is left on each side, of another name": ([line("a"), line("b")], [line("a"), line("c")]),
    "only one on each side, of another name": ([line("b")], [line("c")]),
    "one of them is there twice": ([line("a"), line("a"), line("b")], [line("a"), line("b")]),
    "the first of a name is another line": ([line("a", "x"), line("a")], [line("a")]),
    "the first of a name is another line here": ([line("a")], [line("b"), line("a", "x"), line("a")]),
    "the lines of a name are exchanged": ([line("a"), line("a", "x")], [line("a", "x"), line("a")]),
    "refused alike": (
        [line("a"), '{"name": "b", "transformations": 3}'],
        ['{"name": "b", "transformations": 3}'],
    ),
    "no JSON": ([line("a"), "{", "", "{}", '{"name": ""}'], [line("a", "x"), "{", "{}", '{"name": ""}', ""]),
    "a BOM and line ends of Windows": (
        ["\ufeff" + line("a") + "\r", line("b")],
        [line("a") + "\r", line("b")],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", FLEETS)
def test_as_if_all_lines_were_read(case, tmp_path, monkeypatch):
    files = [tmp_path / "old.jsonl", tmp_path / "new.jsonl"]
    for file, lines in zip(files, FLEETS[case], strict=True):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    found = diff(*files)
    monkeypatch.setattr(sides_to_compare, "lines_in_both", lambda old, new: NO_LINES)
    assert diff(*files) == found


def test_only_lines_with_a_name_of_their_own_are_shared(tmp_path):
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    plan = json.dumps({"jid": "0", "nodes": []})  # named by its file
    shared, twice = line("shared"), line("twice")
    old.write_text("\n".join([shared, twice, twice, plan, "{"]))
    new.write_text("\n".join([twice, plan, "{", shared]))
    found = lines_in_both([str(old)], [str(new)])
    assert (len(found.digests), len(found.ids)) == (1, 1)
    assert lines_in_both([str(old)], [str(new), "/dev/null"]) == NO_LINES
    old.write_text("\n".join([shared, shared.replace("{", "{ ", 1)]))
    new.write_text("\n".join([shared, shared.replace("{", "{ ", 1)]))
    assert lines_in_both([str(old)], [str(new)]) == NO_LINES
