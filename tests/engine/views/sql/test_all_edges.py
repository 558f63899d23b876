"""`penstock edges --all`: the edges of every topology, as those of each alone."""

import json

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.commands.main import app


def edges(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        app(["edges", *arguments], prog_name="penstock")
    return int(end.value.code or 0)


@pytest.mark.slow
def test_all_edges_are_those_of_each_topology(tmp_path, capfd):
    store, file = str(tmp_path / "store"), tmp_path / "edges.parquet"
    planned = penstock.plan("engine/examples/examples.jsonl")
    planned.write(store)
    expected = []
    for name in planned.tables["topologies"]["name"].to_pylist():
        assert edges(store, "--topology", name) == 0
        lines = capfd.readouterr().out.splitlines()
        expected += [json.dumps({"topology": name, **json.loads(line)}, sort_keys=True) for line in lines]
    assert edges(store, "--all") == 0
    found = [json.dumps(json.loads(line), sort_keys=True) for line in capfd.readouterr().out.splitlines()]
    assert sorted(found) == sorted(expected)
    assert edges(store, "--all", "--format", "parquet", "--to", str(file)) == 0
    rows = pq.read_table(file).to_pylist()
    assert sorted(json.dumps(row, sort_keys=True) for row in rows) == sorted(expected)


@pytest.mark.parametrize(
    "options",
    [(), ("--all", "--topology", "a"), ("--all", "--job-edge", "a"), ("--all", "--format", "xml")],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, options, capsys):
    (tmp_path / "plan_versions").mkdir()
    assert edges(str(tmp_path), *options) == 2
    assert "hint" in capsys.readouterr().err
