"""Sinks of the Sink V2 API in topology files: what is refused, what comes back, what they become.

The golden file sinks.jsonl.gz holds what the real Flink makes of them, for the golden tests.
"""

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.views.diff.savepoint_verdicts import Pair, savepoint_verdicts
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.to_topology_lines import to_topology_lines
from penstock.plans.topology.lines_batch import lines_batch
from penstock.plans.topology.lines_of_tables import lines_of_tables
from penstock.plans.topology.parse_lines import parse_lines
from penstock.plans.topology.validate_topology import validate_topology

COMMITTING: dict[str, Any] = {"writer": {}, "committer": {}}
HASH = "0123456789abcdef" * 2
STEP = {"kind": "one_input", "name": "step"}


def job(name: str = "job", **keys: Any) -> dict[str, Any]:
    """source -> sink with these keys -> another sink of the source."""
    return {
        "name": name,
        "parallelism": 2,
        "transformations": [
            {"id": 1, "kind": "source", "name": "in"},
            {"id": 2, "kind": "sink", "name": "Files", "inputs": [1], **keys},
            {"id": 3, "kind": "sink", "name": "out", "inputs": [1]},
        ],
    }


WHOLE = job(
    uid="files",
    parallelism=1,
    writer={"uid_hash": HASH, "supports_concurrent_execution_attempts": True},
    committer={"uid_hash": HASH[::-1]},
    pre_write=[{"kind": "partition", "partitioner": "hash"}, STEP | {"uid": "own"}],
    pre_commit=[STEP | {"parallelism": 1, "managed_memory": {"OPERATOR": 2}, "slot_scope": ["PYTHON"]}],
    post_commit=[{"kind": "partition", "partitioner": "global", "exchange_mode": "BATCH"}, STEP],
)


@pytest.mark.parametrize(
    ("keys", "error", "found"),
    [
        ({"committer": {}}, "MissingKey", "committer without writer"),
        ({"writer": {}, "global_committer": True}, "MissingKey", "global_committer without committer"),
        ({"writer": {}, "pre_commit": [STEP]}, "MissingKey", "pre_commit without committer"),
        (
            {**COMMITTING, "global_committer": True, "post_commit": [STEP]},
            "KeyNotAllowed",
            "global_committer",
        ),
        ({**COMMITTING, "uid_hash": HASH}, "KeyNotAllowed", "key uid_hash"),
        ({**COMMITTING, "buffer_timeout": 1}, "KeyNotAllowed", "key buffer_timeout"),
        ({"writer": True}, "WrongType", "writer True"),
        ({"writer": {"uid_hash": "abc"}}, "OutOfRange", "uid_hash 'abc'"),
        ({"writer": {"uid": "abc"}}, "UnknownKey", "key 'uid'"),
        ({**COMMITTING, "pre_commit": [{"kind": "sink"}]}, "UnknownKind", "kind 'sink'"),
        ({**COMMITTING, "pre_commit": [{"kind": "partition"}]}, "MissingKey", "no partitioner"),
        ({**COMMITTING, "pre_commit": [STEP | {"inputs": [1]}]}, "UnknownKey", "key 'inputs'"),
        ({**COMMITTING, "pre_commit": ["step"]}, "WrongType", "step 'step'"),
    ],
)
def test_what_does_not_go_together_is_refused(keys, error, found):
    (one,) = validate_topology(job(**keys))
    assert (str(one.error), one.found.startswith(found)) == (error, True), one
    assert "transformation 2" in one.location


@pytest.mark.parametrize("kind", ["writer", "committer", "global_committer"])
def test_kinds_of_what_a_sink_becomes_are_no_kinds_of_a_file(kind):
    topology = job()
    topology["transformations"][1]["kind"] = kind
    (one,) = validate_topology(topology)
    assert (str(one.error), "one_input, async" in one.allowed) == ("UnknownKind", True)
    assert kind not in one.allowed.split(", ")


def test_writer_belongs_on_a_sink():
    topology = job()
    topology["transformations"][0]["writer"] = {}
    (one,) = validate_topology(topology)
    assert (str(one.error), one.hint) == ("KeyNotAllowed", "writer belongs on sink")


def test_topologies_come_back_with_their_fingerprints():
    given = [job("a"), job("b", **COMMITTING), {**WHOLE, "name": "c"}]
    tables = {name: from_arrow(table) for name, table in plan_in_process(given).tables.items()}
    lines = [json.loads(line) for line in to_topology_lines(tables)["line"]]
    again = plan_in_process(lines).tables["topologies"]
    prints = tables["topologies"]["fingerprint"].to_list()
    assert again["fingerprint"].to_pylist() == prints
    assert len(set(prints)) == 3
    assert sorted(lines, key=lambda line: line["name"])[2] == {**WHOLE, "name": "c"}


def test_rows_of_tables_say_what_lines_say():
    tables = plan_in_process([WHOLE]).tables
    batches = lines_of_tables(tables["topologies"], tables["transformations"])
    (value,) = (row["value"] for batch in batches for row in batch.to_pylist())
    parsed = parse_lines([lines_batch([value], None, [0])])
    (found,) = (row for batch in parsed for row in batch.to_pylist() if row["name"])
    assert found["fingerprint"] == tables["topologies"]["fingerprint"][0].as_py()
    assert json.loads(found["transformations"][1]["sink_topology"]) == {
        key: WHOLE["transformations"][1][key]
        for key in ("committer", "post_commit", "pre_commit", "pre_write", "writer")
    }


def test_a_sink_that_is_expanded_keeps_its_place_among_the_readers():
    tables = plan_in_process([job(**COMMITTING)]).tables
    edges = [edge for edge in tables["stream_edges"].to_pylist() if edge["source"] == 1]
    assert [(edge["target"], edge["out_index"]) for edge in edges] == [(4, 0), (3, 1)]
    made = {row["name"]: row["transformation"] for row in tables["stream_nodes"].to_pylist()}
    assert made == {"Source: in": 1, "Files: Writer": 2, "Files: Committer": 2, "Sink: out": 3}


@pytest.mark.slow
def test_a_fleet_may_have_some_topologies_with_such_sinks():
    fleet = [job(f"job-{n}", **(COMMITTING if n % 3 == 0 else {})) for n in range(9)]
    planned = plan_in_process(fleet)
    alone = [plan_in_process([one]) for one in fleet]

    def rows(tables: dict[str, pa.Table], table: str) -> list[str]:
        return sorted(str(row) for row in tables[table].to_pylist())

    for table in ("stream_nodes", "stream_edges", "chained_operators", "job_vertices", "job_edges"):
        assert rows(planned.tables, table) == sorted(
            row for one in alone for row in rows(one.tables, table)
        ), table


@pytest.mark.parametrize(
    ("stateful", "verdict"), [(None, "allow-non-restored"), ({1}, "restores"), ({2}, "allow-non-restored")]
)
def test_the_state_of_a_sink_is_that_of_all_that_it_becomes(stateful, verdict):
    old, new = job(**COMMITTING, uid="files"), job(writer={}, uid="files")
    for topology in (old, new):
        topology["transformations"][0]["uid"], topology["transformations"][2]["uid"] = "in", "out"
    pair = Pair("pair", old, new, None if stateful is None else frozenset(stateful))
    assert [found.verdict for found in savepoint_verdicts([pair])] == [verdict]
