"""Fleets drawn after a given one: valid, the same for a seed, new in shape, and as close as is said."""

import copy
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.generate.draw_like import (
    GivenFleet,
    as_transformations,
    draw_like,
    find_segments,
    given_fleet,
)
from penstock.plans.generate.fidelity import fidelity
from penstock.plans.generate.fleet import Spec, topology_lines
from penstock.plans.generate.random import random
from penstock.plans.layers import PlanOptions
from penstock.plans.plan_json.to_topology_lines import to_topology_lines
from penstock.plans.topology.validate_topology import validate_topology
from penstock.plans.vocabulary import Layer

Topology = dict[str, Any]
Frames = dict[str, pl.DataFrame]


def planned(topologies: list[Topology]) -> Frames:
    tables = plan_in_process(topologies, PlanOptions(Layer.JOB_GRAPH)).tables
    return {name: from_arrow(table) for name, table in tables.items()}


def fleet_of(frames: Frames) -> GivenFleet:
    return given_fleet(frames["topologies"], frames["transformations"])


def drawn(fleet: GivenFleet, numbers: list[int] | range, seed: int = 0) -> list[Topology]:
    found = draw_like(fleet, find_segments(fleet), seed, np.array(numbers))
    return [orjson.loads(line) for line in to_topology_lines(found.tables)["line"]]


def topology(*transformations: Topology, name: str = "given", **settings: Any) -> Topology:
    numbered = [{"id": number, **each} for number, each in enumerate(transformations, 1)]
    return {"name": name, **settings, "transformations": numbered}


def operators(of: Topology) -> list[str]:
    return [each["name"] for each in of["transformations"] if "name" in each]


@pytest.fixture(scope="module")
def given() -> Frames:
    lines = "".join(
        topology_lines(random(Spec(operators=12, topologies=400, seed=5, with_refusals=True)))
    ).splitlines()
    return planned([orjson.loads(line) for line in lines])


LINE = topology(
    {"kind": "source", "name": "s"},
    {"kind": "one_input", "name": "a", "uid": "a", "inputs": [1]},
    {"kind": "partition", "partitioner": "hash", "inputs": [2]},
    {"kind": "one_input", "name": "b", "uid_hash": "0" * 32, "inputs": [3]},
    {"kind": "sink", "name": "k", "inputs": [4]},
    parallelism=2,
)
STAR = topology(
    {"kind": "source", "name": "s"},
    {"kind": "sink", "name": "kept", "inputs": [1]},
    {"kind": "one_input", "name": "f", "inputs": [1]},
    {"kind": "sink", "name": "x", "inputs": [3]},
    {"kind": "one_input", "name": "g", "inputs": [1]},
    {"kind": "sink", "name": "y", "inputs": [5]},
)


def test_a_run_is_repeated_one_after_the_other_with_its_partition():
    made = drawn(fleet_of(planned([LINE])), range(40))
    by_operators = {tuple(operators(one)): one for one in made}
    assert set(by_operators) == {("s", "a", "b", "k"), ("s", "a", "a", "k"), ("s", "b", "b", "k")}
    _, first, *partitions_and_second, sink = by_operators["s", "b", "b", "k"]["transformations"][1:]
    assert [first["inputs"], *(one["inputs"] for one in partitions_and_second)] == [[2], [3], [4]]
    assert sink["inputs"] == [5]
    repeated = by_operators["s", "a", "a", "k"]["transformations"]
    assert [one.get("uid") for one in repeated] == [None, "a", "a (copy 2)", None]
    hashes = [
        one["uid_hash"] for one in by_operators["s", "b", "b", "k"]["transformations"] if "uid_hash" in one
    ]
    assert hashes[0] == "0" * 32
    assert hashes[1] != hashes[0]


def test_a_branch_is_repeated_beside_itself_and_one_reader_stays():
    made = drawn(fleet_of(planned([STAR])), range(40))
    found = {tuple(sorted(operators(one))) for one in made}
    assert found == {
        ("f", "g", "kept", "s", "x", "y"),
        ("f", "f", "kept", "s", "x", "x"),
        ("g", "g", "kept", "s", "y", "y"),
    }
    twice = next(one for one in made if operators(one).count("f") == 2)
    assert [one.get("inputs") for one in twice["transformations"]] == [None, [1], [1], [3], [1], [5]]


def test_runs_that_are_left_out_one_after_the_other_are_read_through():
    steps = [{"kind": "one_input", "name": f"m{number}", "inputs": [number]} for number in range(1, 41)]
    line = topology({"kind": "source", "name": "s"}, *steps, {"kind": "sink", "name": "k", "inputs": [41]})
    for one in drawn(fleet_of(planned([line])), range(20)):
        assert len(one["transformations"]) == 42
        assert [each["inputs"] for each in one["transformations"][1:]] == [[n] for n in range(1, 42)]


@pytest.mark.parametrize(
    "settings", [{"parallelism": 3}, {"slot_sharing_group": "own"}, {"co_location_group": "here"}]
)
def test_what_others_depend_on_is_no_run(settings):
    line = topology(
        {"kind": "source", "name": "s"},
        {"kind": "one_input", "name": "m", "inputs": [1], **settings},
        {"kind": "sink", "name": "k", "inputs": [2]},
    )
    assert len(find_segments(fleet_of(planned([line]))).first) == 0


@pytest.mark.slow
def test_drawn_topologies_are_valid_as_large_and_planned(given):
    fleet = fleet_of(given)
    made = drawn(fleet, range(600))
    assert not any(map(validate_topology, made))
    assert len({one["name"] for one in made}) == 600
    assert plan_in_process(made, PlanOptions(Layer.EXECUTION_GRAPH)).rejected == 0
    given_sizes = {
        sum(name not in ("partition", "union", "select", "side_output") for name in kinds)
        for kinds in given["transformations"].group_by("topology_id").agg("kind")["kind"]
    }
    assert {sum(1 for one in each["transformations"] if "name" in one) for each in made} <= given_sizes


def test_a_topology_depends_on_seed_and_number_alone(given):
    fleet = fleet_of(given)
    all_of_them = drawn(fleet, range(30))
    assert drawn(fleet, [3, 17, 29]) == [all_of_them[number] for number in (3, 17, 29)]
    other_order = {**given, "topologies": given["topologies"].reverse()}
    assert drawn(fleet_of(other_order), range(30)) == all_of_them
    assert drawn(fleet, range(30), seed=1) != all_of_them


@pytest.mark.slow
def test_a_drawn_fleet_is_close_and_another_fleet_is_far(given):
    fleet = fleet_of(given)
    distances = fidelity(given, planned(drawn(fleet, range(800))), 0)
    assert len(distances) == 11
    assert [one.distribution for one in distances if not one.is_close] == []
    other = planned([LINE | {"name": f"line {number}"} for number in range(50)])
    far = {one.distribution for one in fidelity(given, other, 0) if not one.is_close}
    assert {"operators of a topology", "kinds", "reasons against chaining", "partitioners of edges"} <= far


def test_distances_are_those_of_the_definitions():
    one = planned([LINE, STAR | {"name": "star"}])
    other = planned([LINE])
    found = {each.distribution: each for each in fidelity(one, other, 0)}
    assert found["operators of a topology"].distance == pytest.approx(0.5)
    # 2 sources, 4 one_input, 4 sinks and 1 partition of 11; then 1, 2, 1 and 1 of 5.
    assert found["kinds"].distance == pytest.approx((1 / 5 - 2 / 11) + (2 / 5 - 4 / 11) + (1 / 5 - 1 / 11))
    assert found["longest path of a topology"].distance == pytest.approx(0.5)
    assert {each.distance for each in fidelity(one, one, 0)} == {0.0}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["generate", *arguments])


@pytest.mark.slow
def test_store_and_file_draw_the_same_fleet_and_say_how_close_it_is(tmp_path: Path):
    file, store = tmp_path / "given.jsonl", str(tmp_path / "store")
    file.write_text("".join(topology_lines(random(Spec(operators=6, topologies=60, seed=2)))))
    assert CliRunner().invoke(app, ["plan", str(file), "--out", store]).exit_code == 0
    made = []
    for like in (str(file), store):
        done = run("--like", like, "-n", "300", "--out", str(tmp_path / "drawn.jsonl"))
        assert done.exit_code == 0, done.output
        assert "300 topologies in" in done.output
        assert "11 of 11 are close" in done.output
        made.append((tmp_path / "drawn.jsonl").read_bytes())
    assert made[0] == made[1]
    assert len(made[0].splitlines()) == 300


SUITES = Path(__file__).parents[4] / "engine" / "measure" / "bench"


def graphs(suite: str) -> list[Topology]:
    with gzip.open(SUITES / suite, "rt", encoding="utf-8") as lines:
        return [orjson.loads(line) for line in lines]


def shapes(topologies: list[Topology]) -> dict[str, list[Any]]:
    """Of each job's vertices what does not depend on ids: chain length, parallelism, kinds of data sets."""
    frames = planned(topologies)
    assert frames["rejected"].is_empty()
    of_vertex = ("topology_id", "vertex")
    sets = frames["intermediate_data_sets"].sort("output_index").group_by(of_vertex, maintain_order=True)
    chains = frames["chained_operators"].group_by(of_vertex).len("operators")
    vertices = frames["job_vertices"].join(chains, on=of_vertex)
    vertices = vertices.join(sets.agg("result_partition_type"), on=of_vertex, how="left")
    of_vertices = pl.struct("parallelism", "max_parallelism", "operators", "result_partition_type")
    names = frames["topologies"].select("topology_id", "name")
    found = vertices.select("topology_id", shape=of_vertices).join(names, on="topology_id")
    return {name[0]: sorted(map(str, rows["shape"])) for name, rows in found.group_by("name")}


def test_graphs_keep_their_shape_as_transformations():
    """All of Nexmark's, in both modes, and captured jobs but one: there Flink joins two forward groups."""
    given = [*graphs("nexmark.jsonl.gz"), *graphs("captured.jsonl.gz")]
    written = [as_transformations(graph) for graph in given]
    before, after = shapes(given), shapes([one for one in written if one is not None])
    assert [name for name in before if before[name] != after.get(name)] == [
        "table/basics.GettingStartedExample"
    ]


def test_a_source_by_itself_is_no_topology_to_draw_after():
    (source,) = (copy.deepcopy(graph) for graph in graphs("captured.jsonl.gz")[:1])
    graph = source["stream_graph"]
    graph |= {"nodes": [{**graph["nodes"][0], "out_edges": []}], "edges": [], "sinks": []}
    assert as_transformations(source) is None


@pytest.mark.slow
def test_the_captured_suite_is_drawn_after_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    done = run("--like", "captured", "-n", "50", "--out", "drawn.jsonl")
    assert "50 topologies in drawn.jsonl, drawn after 96 of captured" in done.output
    assert "refused" not in done.output
    drawn_lines = (tmp_path / "drawn.jsonl").read_bytes().splitlines()
    assert all(validate_topology(orjson.loads(line)) == [] for line in drawn_lines)
    (tmp_path / "captured").write_bytes(orjson.dumps(LINE) + b"\n")
    assert "drawn after 1 of captured" in run("--like", "captured", "--out", "drawn.jsonl").output


def test_topologies_of_scripts_are_drawn_after(tmp_path: Path):
    """Copies of an operator would have its node id twice."""
    line = copy.deepcopy(LINE)
    for row in line["transformations"]:
        row["node_id"] = 100 + row["id"]
    (tmp_path / "line.jsonl").write_bytes(orjson.dumps(line) + b"\n")
    drawn = tmp_path / "drawn.jsonl"
    assert run("--like", str(tmp_path / "line.jsonl"), "-n", "20", "--out", str(drawn)).exit_code == 0
    assert all(validate_topology(orjson.loads(text)) == [] for text in drawn.read_bytes().splitlines())


def test_what_cannot_be_drawn_is_said(tmp_path: Path):
    out = str(tmp_path / "drawn.jsonl")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"name": "x"}\n')
    file = tmp_path / "line.jsonl"
    file.write_bytes(orjson.dumps(LINE) + b"\n")
    cases = [
        (["--like", str(bad), "--out", out], 3, "no topology was planned"),
        (["--like", str(tmp_path / "none"), "--out", out], 3, "none does not exist"),
        (["--like", str(file), "--out", str(tmp_path / "folder")], 2, "FILE.jsonl or FILE.jsonl.gz"),
        (["random", "--like", str(file), "--out", out], 2, "SHAPE random"),
        (["--like", str(file), "--operators", "3", "--out", out], 2, "--operators"),
        (["--like", str(file), "-n", "0", "--out", out], 2, "topologies must be 1 to"),
        (["--out", out], 2, "SHAPE is required"),
    ]
    for arguments, code, said in cases:
        done = run(*arguments)
        assert (done.exit_code, said in done.output) == (code, True), (arguments, done.output)
    assert not Path(out).exists()
