"""Names that nobody knows in captured graphs are refused, or are names that nothing depends on."""

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow

CAPTURED = Path(__file__).parents[2] / "golden" / "captured.jsonl.gz"
UNKNOWN = "Unknown7"

FREE = {
    *(f"nodes {key}" for key in ("name", "description", "uid", "slot_sharing_group", "invokable")),
    *(f"nodes {key}" for key in ("operator_factory", "operator_class", "function_class")),
    "edges output_tag",
}
"""Names that authors and classes choose: the plan has them as they are."""

Place = tuple[str | int, ...]


def strings(value: Any, place: Place = ()) -> Iterator[Place]:
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    elif isinstance(value, str):
        yield place
    for key, entry in entries:
        yield from strings(entry, (*place, key))


def with_unknown(topology: dict[str, Any], place: Place) -> dict[str, Any]:
    found = copy.deepcopy(topology)
    inner: Any = found["stream_graph"]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = UNKNOWN
    return found


@pytest.fixture(scope="module")
def outcomes() -> dict[str, set[str]]:
    """Key to what became of up to six graphs in which one value of it is unknown."""
    with gzip.open(CAPTURED, "rt", encoding="utf-8") as lines:
        topologies = [json.loads(line)["topology"] for line in lines]
    cases: dict[str, tuple[str, dict[str, Any]]] = {}
    taken: dict[str, int] = {}
    for topology in topologies:
        for place in strings(topology["stream_graph"]):
            key = " ".join(part for part in place if isinstance(part, str))
            if taken.setdefault(key, 0) < 6:
                taken[key] += 1
                name = f"{key}/{taken[key]}"
                cases[name] = (key, {**with_unknown(topology, place), "name": name})
    tables = plan_in_process([topology for _, topology in cases.values()]).tables
    frames = {name: from_arrow(tables[name]) for name in ("topologies", "job_vertices", "rejected")}
    with_vertices = frames["topologies"].join(frames["job_vertices"], on="topology_id", how="semi")["name"]
    found: dict[str, set[str]] = {key: set() for key in taken}
    for name in with_vertices:
        found[cases[name][0]].add("planned")
    for name, error, message in frames["rejected"].select("name", "error", "message").iter_rows():
        found[cases[name][0]].add("refused" if UNKNOWN in message else f"{error}: {message}")
    assert len(with_vertices) + len(frames["rejected"]) == len(cases)
    return found


def test_every_name_is_free_or_refused_by_name(outcomes: dict[str, set[str]]):
    expected = {key: {"planned" if key in FREE else "refused"} for key in outcomes}
    expected["edges partitioner_class"] = {"planned", "refused"}  # connectors bring classes that print HASH
    assert outcomes == expected
    assert outcomes.keys() >= FREE
