"""Identifies a plan by what kept data sets depend on, to find those of an earlier run."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import pyarrow as pa

from penstock.plans.installation import own_version

_MOST_NAMED = 10


def identify_plan(name: str, batch: bool, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """The identity of a plan as JSON: for each vertex id its operators by id, its parallelism and inputs."""
    sizes = {row["vertex"]: row for row in tables["execution_job_vertices"].to_pylist()}
    ids = {row["vertex"]: row["vertex_id"] for row in tables["job_vertices"].to_pylist()}
    vertices: dict[str, Any] = {}
    for row in tables["job_vertices"].to_pylist():
        size = sizes[row["vertex"]]
        vertices[row["vertex_id"]] = {
            "name": row["name"],
            "parallelism": [size["parallelism"], size["max_parallelism"]],
            "operators": {},
            "inputs": [],
        }
    for row in tables["chained_operators"].to_pylist():
        vertices[ids[row["vertex"]]]["operators"][row["operator_id"]] = row["name"]
    edges = tables["job_edges"].select(
        ["target_vertex", "input_index", "source_vertex", "ship_strategy", "distribution"]
    )
    for row in sorted(edges.to_pylist(), key=itemgetter("target_vertex", "input_index")):
        vertices[ids[row["target_vertex"]]]["inputs"].append(
            [ids[row["source_vertex"]], row["ship_strategy"], row["distribution"]]
        )
    return {
        "penstock": own_version(),
        "job": name,
        "mode": "BATCH" if batch else "STREAMING",
        "vertices": vertices,
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The changes between two plans, in words; none if data sets of one serve the other."""
    changes = [
        f"{setting} was {before[setting]!r}, is {now[setting]!r}"
        for setting in ("penstock", "job", "mode")
        if before[setting] != now[setting]
    ]
    old, new = _operators(before), _operators(now)
    changes += [f"operator {name!r} ({key}) is gone" for key, (name, _) in old.items() if key not in new]
    changes += [f"operator {name!r} ({key}) is new" for key, (name, _) in new.items() if key not in old]
    for key, (name, vertex) in new.items():
        if key in old:
            changes += [f"operator {name!r} ({key}) {change}" for change in _changes(old[key][1], vertex)]
    return (
        changes
        if len(changes) <= _MOST_NAMED
        else [*changes[:_MOST_NAMED], f"{len(changes) - _MOST_NAMED} more"]
    )


def _operators(plan: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Name and vertex of each operator, by its id."""
    return {
        key: (name, vertex)
        for vertex in plan["vertices"].values()
        for key, name in vertex["operators"].items()
    }


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """How the vertices of one operator differ."""
    changes = []
    if before["parallelism"] != now["parallelism"]:
        changes.append(
            "had parallelism {} (max {}), has {} (max {})".format(*before["parallelism"], *now["parallelism"])
        )
    if list(before["operators"]) != list(now["operators"]):
        changes.append("is in another chain")
    if before["inputs"] != now["inputs"]:
        changes.append("has other inputs")
    return changes
