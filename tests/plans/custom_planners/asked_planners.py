"""Topologies, and planners of one's own that are asked about them."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import penstock
from penstock.engine.planning.find_custom_planners import CustomPlanner, find_custom_planners
from penstock.engine.planning.plan_by_custom_planners import CallSettings, plan_by_custom_planners
from penstock.engine.planning.plan_in_process import read_in_process
from penstock.engine.planning.plan_result import PlanResult

KEYS = ["topology_id", "target", "in_index"]


def job(name: str, **of_first: Any) -> dict[str, Any]:
    """source -> map -> (hash) -> count -> sink."""
    return {
        "name": name,
        "parallelism": 2,
        "transformations": [
            {"id": 1, "kind": "source", "name": "in"},
            {"id": 2, "kind": "one_input", "name": "map", "inputs": [1], **of_first},
            {"id": 3, "kind": "partition", "partitioner": "hash", "inputs": [2]},
            {"id": 4, "kind": "one_input", "name": "count", "inputs": [3]},
            {"id": 5, "kind": "sink", "name": "out", "inputs": [4]},
        ],
    }


GOOD, BAD = job("good"), job("bad")


def custom_planner(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> list[CustomPlanner]:
    monkeypatch.setattr(penstock, "tested", function, raising=False)
    return find_custom_planners("penstock:tested")


def planned(
    custom_planners: list[CustomPlanner], *topologies: dict[str, Any], seconds: float = 20
) -> PlanResult:
    read = read_in_process([*topologies])
    return plan_by_custom_planners(read, custom_planners, question=CallSettings(seconds=seconds))


def rejected(plan: PlanResult) -> dict[str, tuple[str, str, str]]:
    rows = plan.tables["rejected"].to_pylist()
    return {row["name"]: (row["error_stage"], row["error"], row["message"]) for row in rows}


def only_bad(topologies: pl.DataFrame) -> pl.DataFrame:
    return topologies.filter(pl.col("name") == "bad").select("topology_id")
