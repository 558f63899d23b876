"""Fleets drawn by a spec file: what it says is drawn, as often as it says."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.errors import InputError
from penstock.plans.generate.draw_by_spec import (
    FleetSpec,
    distances_of_draws,
    divided,
    draw_by_spec,
    no_counts,
    read_fleet_spec,
)
from penstock.plans.layers import PlanOptions
from penstock.plans.topology.validate_topology import validate_topology
from penstock.plans.vocabulary import Layer

EVERYTHING = {
    "name": "all",
    "config": {"pipeline.max-parallelism": "128"},
    "workflow": {
        "depth": {"min": 3, "max": 6},
        "scalability": {"parallelism": [8, 20], "balancing": {"balanced": 2, "pyramid": 1, "decreasing": 1}},
        "connection": {
            "shape": {"linear": 5, "diamond": 3, "star": 2},
            "routing": ["none", "balanced", "hash", "broadcast", "rescale", "shuffle", "global"],
            "width": {2: 3, 5: 1},
        },
    },
}

NAMB = """
datastream: {synthetic: {data: {size: 8, values: 100, distribution: uniform}}}
workflow:
  depth: 4
  scalability: {parallelism: 10, balancing: increasing, variability: 0.5}
  connection: {shape: star, routing: hash}
  workload: {processing: 4.5, balancing: balanced}
  reliability: true
  filtering: 0
  windowing: {enabled: false}
"""


def drawn(spec: dict[str, Any], many: int = 1, seed: int = 0) -> list[dict[str, Any]]:
    read = FleetSpec.model_validate(spec)
    return [draw_by_spec(read, seed, number, no_counts()) for number in range(many)]


def edges(topology: dict[str, Any]) -> list[tuple[str, str]]:
    """Names of operators that read each other, through what is between them."""
    rows = {row["id"]: row for row in topology["transformations"]}

    def operators(row: int) -> list[str]:
        one = rows[row]
        return [one["name"]] if "name" in one else [name for i in one["inputs"] for name in operators(i)]

    return [
        (name, row["name"])
        for row in rows.values()
        if "name" in row
        for i in row.get("inputs", [])
        for name in operators(i)
    ]


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ("linear", [("source_1", "op_2"), ("op_2", "op_3"), ("op_3", "op_4")]),
        (
            "diamond",
            [
                ("source_1", "op_2"),
                ("source_1", "op_3"),
                ("op_2", "op_4"),
                ("op_3", "op_4"),
                ("op_4", "op_5"),
            ],
        ),
        (
            "star",
            [
                ("source_1", "op_3"),
                ("source_2", "op_3"),
                ("op_3", "op_4"),
                ("op_3", "op_5"),
                ("op_4", "op_6"),
            ],
        ),
    ],
)
def test_shapes_are_those_of_namb(shape: str, found: list[tuple[str, str]]):
    for routing in ("none", "hash"):
        (topology,) = drawn({"workflow": {"depth": 4, "connection": {"shape": shape, "routing": routing}}})
        assert sorted(edges(topology)) == sorted(found)
        read = {source for source, _ in found}
        sinks = {row["name"] for row in topology["transformations"] if row["kind"] == "sink"}
        assert sinks == {target for _, target in found} - read


@pytest.mark.parametrize(
    ("balancing", "found"),
    [
        ("balanced", [4, 4, 3]),
        ("increasing", [2, 4, 5]),
        ("decreasing", [5, 4, 2]),
        ("pyramid", [3, 6, 2]),
    ],
)
def test_subtasks_are_divided(balancing: str, found: list[int]):
    assert divided(11, 3, balancing, 0.5) == found
    assert divided(2, 3, balancing, 1.0) == [1, 1, 1]
    assert sum(divided(1_000, 37, balancing, 1.0)) == 1_000
    assert divided(5, 1, balancing, 1.0) == [5]


def test_drawn_topologies_are_valid_planned_and_the_same_for_a_seed():
    made = drawn(EVERYTHING, 200)
    assert not any(map(validate_topology, made))
    assert plan_in_process(made, PlanOptions(Layer.JOB_GRAPH)).rejected == 0
    assert drawn(EVERYTHING, 20) == made[:20]
    assert drawn(EVERYTHING, 20, seed=1) != made[:20]
    assert {row["parallelism"] for one in made for row in one["transformations"] if "name" in row} > {1, 2}


def test_values_are_drawn_as_often_as_the_spec_says():
    spec = FleetSpec.model_validate(EVERYTHING)
    counts = no_counts()
    for number in range(2_000):
        draw_by_spec(spec, 3, number, counts)
    distances = distances_of_draws(spec, counts, 3)
    assert [one.distribution for one in distances] == [
        "depth",
        "connection.shape",
        "connection.width",
        "connection.routing",
        "scalability.balancing",
        "scalability.parallelism",
    ]
    assert all(one.is_close for one in distances)
    counts["connection.shape"]["star"] += 2_000
    assert [one.distribution for one in distances_of_draws(spec, counts, 3) if not one.is_close] == [
        "connection.shape"
    ]


def test_a_spec_of_namb_is_taken_and_what_it_says_besides_is_named(tmp_path: Path):
    spec, out = tmp_path / "namb.yml", tmp_path / "drawn.jsonl"
    spec.write_text(NAMB)
    done = CliRunner().invoke(app, ["generate", str(spec), "-n", "3", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert (
        "datastream, workflow.workload, workflow.reliability, workflow.filtering, workflow.windowing"
        in done.output
    )
    made = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["name"] for one in made] == [f"spec-0-{number:06}" for number in range(3)]
    assert [row["parallelism"] for row in made[0]["transformations"] if "name" in row] == [1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "workflow: {depth: [1, 2], connection: {shape: ring}, x: 3}",
            "workflow.depth: must be whole numbers from 2 to 10,000, got 1",
        ),
        ("workflow: {depth: [1, 2], connection: {shape: ring}, x: 3}", "star, got 'ring'"),
        ("workflow: {depth: [1, 2], connection: {shape: ring}, x: 3}", "workflow.x: not a key of a spec"),
        ("workflow: {depth: 2, connection: {shape: star}}", "depth must be 3 or more in these shapes, got 2"),
        (
            "workflow: {depth: 2, connection: {shape: star}, x: 3}",
            "depth must be 3 or more in these shapes, got 2",
        ),
        (
            "workflow: {depth: 3, scalability: {parallelism: 2, operators: 2, balancing: '{x}'}}",
            "balancing: must be balanced, increasing, decreasing, pyramid, got '{x}'\nTHERE: "
            "workflow.scalability: parallelism and operators cannot be combined",
        ),
        ("workflow: {depth: {3: 0}}", "weights, 0 or more and not all 0"),
        ("workflow: {depth: []}", "at least one"),
        ("workflow: {depth: {min: 5, max: 3}}", "min not above max"),
        ("workflow: {depth: 3, scalability: {parallelism: 2, operators: 2}}", "cannot be combined"),
        ("workflow: {depth: 3.5}", "got 3.5"),
        ("workflow: {depth: [1, x, 3]}", "got 1, 'x'"),
        ("workflow: {depth: 3}\n\nworkflow: {depth: 4}", "line 3: the key 'workflow' occurs twice"),
        ("workflow:\n  depth: &a [*a]", "depth: must be"),
        ("workflow: {depth: [3, 3]}", "different values"),
        ("name: x", "workflow: Field required"),
        ("pipeline: {tasks: []}", "a single application of NAMB"),
        ("- 1", "must be an object"),
        ("", "got None"),
        ("a: [1\nb: 2", "line 2: invalid YAML"),
        ("\x00", "invalid YAML"),
    ],
)
def test_what_is_wrong_in_a_spec_is_said(text: str, said: str, tmp_path: Path):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_fleet_spec(str(path))
    assert said.replace("THERE", str(path)) in str(caught.value)


def test_what_a_spec_cannot_be_drawn_with_is_said(tmp_path: Path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("workflow: {depth: 3}")
    out = str(tmp_path / "drawn.jsonl")
    for arguments, code, said in [
        ([str(tmp_path / "none.yaml"), "--out", out], 3, "spec file not found"),
        ([str(spec), "--width", "3", "--out", out], 2, "--width"),
        ([str(spec), "--out", str(tmp_path / "tables")], 2, "FILE.jsonl"),
        ([str(spec), "-n", "0", "--out", out], 2, "topologies must be 1 to"),
    ]:
        done = CliRunner().invoke(app, ["generate", *arguments])
        assert (done.exit_code, said in done.output) == (code, True), done.output
