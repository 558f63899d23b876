"""Compares Penstock's plans of captured jobs with those that Flink made in the same process."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from penstock.engine.planning.digest_plans import REFUSAL, comparable_layers
from penstock.engine.planning.plan_beside_flink import first_difference
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.plan_json.columnar.to_plan_lines import to_plan_lines
from penstock.plans.vocabulary import Layer


def verify_captured(lines: Sequence[str], flinks: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """For each job that Flink planned, by name: where Penstock's plan of its line says something else.

    `lines` are topology lines, `flinks` plan JSON. Only layers that Flink gave are compared: another Flink
    than 2.3 gives no ExecutionGraph. An empty list means that all of them are equal.
    """
    planned = plan_in_process([orjson.loads(line) for line in lines])
    frames = {name: from_arrow(table) for name, table in planned.tables.items()}
    ours = {plan["name"]: plan for plan in map(orjson.loads, to_plan_lines(frames)["line"])}
    return {str(flink["name"]): _differences(flink, ours.get(flink["name"], {})) for flink in flinks}


def _differences(flink: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    theirs, own = comparable_layers(flink), comparable_layers(ours)
    if REFUSAL in theirs or REFUSAL in own:
        if theirs.get(REFUSAL) == own.get(REFUSAL):
            return []
        return [first_difference(theirs.get(REFUSAL, "a plan"), own.get(REFUSAL, "a plan"), f"/{REFUSAL}")]
    given = str(Layer.STREAM_GRAPH)  # which a plan of a given stream graph leaves out
    return [
        first_difference(value, own.get(layer), f"/{layer}")
        for layer, value in theirs.items()
        if layer != given and own.get(layer) != value
    ]
