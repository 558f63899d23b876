"""Compares Penstock's plans of captured jobs with those that Flink made in the same process."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from penstock.engine.planning.digest_plans import REFUSAL, comparable_layers
from penstock.engine.planning.plan_beside_flink import first_difference
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.columnar.to_plan_lines import to_plan_lines
from penstock.plans.vocabulary import Layer


def verify_captured(lines: Sequence[str], flinks: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """For each job that Flink planned, by name: where Penstock's plan of its line says something else.

    `lines` are topology lines, `flinks` plan JSON. Only layers that Flink gave are compared: another Flink
    than 2.3 gives no ExecutionGraph. An empty list means that all of them are equal. Flink 1 draws the ids of
    data sets at random: there, these are compared by vertex and place.
    """
    topologies = [orjson.loads(line) for line in lines]
    planned = plan_in_process(topologies)
    frames = {name: from_arrow(table) for name, table in planned.tables.items()}
    ours = {plan["name"]: plan for plan in map(orjson.loads, to_plan_lines(frames)["line"])}
    drawn = {line["name"] for line in topologies if _version(line).startswith("1.")}
    return {
        str(flink["name"]): _differences(flink, ours.get(flink["name"], {}), drawn=flink["name"] in drawn)
        for flink in flinks
    }


def _version(topology: Mapping[str, Any]) -> str:
    return str(topology.get("config", {}).get("penstock.capture.flink-version", ""))


def _differences(flink: Mapping[str, Any], ours: Mapping[str, Any], *, drawn: bool) -> list[str]:
    theirs, own = comparable_layers(flink), comparable_layers(ours)
    if drawn:
        theirs, own = _with_data_sets_by_place(theirs), _with_data_sets_by_place(own)
    if REFUSAL in theirs or REFUSAL in own:
        if theirs.get(REFUSAL) == own.get(REFUSAL):
            return []
        return [first_difference(theirs.get(REFUSAL, "a plan"), own.get(REFUSAL, "a plan"), f"/{REFUSAL}")]
    from_flink = str(Layer.STREAM_GRAPH)  # Penstock has it from Flink
    return [
        first_difference(value, own.get(layer), f"/{layer}")
        for layer, value in theirs.items()
        if layer != from_flink and own.get(layer) != value
    ]


def _with_data_sets_by_place(layers: Mapping[str, Any]) -> dict[str, Any]:
    """The layers with a data set's vertex and place among its outputs for its id."""
    job_graph = layers.get(str(Layer.JOB_GRAPH))
    if job_graph is None:
        return dict(layers)
    places = {
        output["id"]: f"{vertex['id']}, output {place}"
        for vertex in job_graph["vertices"]
        for place, output in enumerate(vertex["outputs"])
    }
    vertices = [
        {
            **vertex,
            "outputs": [{**output, "id": places[output["id"]]} for output in vertex["outputs"]],
            "inputs": [{**edge, "data_set": places[edge["data_set"]]} for edge in vertex["inputs"]],
        }
        for vertex in job_graph["vertices"]
    ]
    return {**layers, str(Layer.JOB_GRAPH): {**job_graph, "vertices": vertices}}
