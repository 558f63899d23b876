"""Plan by Flink itself, into the tables that every planner returns."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from penstock.engine.flink.plan_with_flink import compiled_planner, flink_jars, plan_with_flink
from penstock.engine.output.progress import SILENT, Report
from penstock.engine.planning.plan_in_process import (
    Source,
    plan_in_process,
    read_in_process,
    write_result,
)
from penstock.engine.planning.plan_result import PlanResult, require_nothing_lost
from penstock.engine.spark.find_java import require_java
from penstock.plans.errors import ALLOWED, HINT, INPUT_STAGE, ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.frames.polars_refusals import without_topologies
from penstock.plans.layers import DEFAULT_OPTIONS, PlanOptions
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.printable import limited
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.lines_of_tables import lines_of_tables
from penstock.plans.topology.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import DEFAULT_SLOT_SHARING_STRATEGY, Layer, TopologyForm

# Digests of plans, one per topology and layer, to compare the plans of planners.


_REFUSAL = "refusal"
Digests = dict[str, dict[str, str]]
"""Topology name to layer (or REFUSAL) to digest."""


def digest_plans(lines: Iterable[str]) -> Digests:
    """Return the digests of plan JSON lines.

    Values that Flink leaves undefined do not count: the order of vertices, nodes and slots, the numbers of
    groups, and whether a key without a value is written.
    """
    digests: Digests = {}
    for line in lines:
        plan = orjson.loads(line)
        digests[str(plan["name"])] = {
            layer: _digest(value) for layer, value in _comparable_layers(plan).items()
        }
    return digests


def _comparable_layers(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layers of a plan JSON line, or its REFUSAL, without values that Flink leaves undefined."""
    if "error" in plan:
        return {_REFUSAL: [plan.get(key) for key in ("error_stage", "error", "message")]}
    return {key: _plain(comparable(plan[key])) for key, comparable in _LAYERS.items() if key in plan}


def find_differences(by_planner: Mapping[str, Digests]) -> list[dict[str, Any]]:
    """Return one entry per pair of planners and layer, with the number of differences and the first one.

    A topology that only one of the two refuses, or has at all, differs at REFUSAL. A layer that one of them
    leaves out of a plan (given stream graphs) is not compared there.
    """
    names = list(by_planner)
    entries = []
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            entries += _compare_pair(first, by_planner[first], second, by_planner[second])
    return entries


def _compare_pair(
    first: str, first_digests: Digests, second: str, second_digests: Digests
) -> list[dict[str, Any]]:
    compared: dict[str, int] = {}
    differing: dict[str, list[str]] = {}
    for name in sorted(set(first_digests) | set(second_digests)):
        ours, theirs = first_digests.get(name, {}), second_digests.get(name, {})
        shared = set(ours) & set(theirs)
        if not (ours and theirs) or (_REFUSAL in ours) != (_REFUSAL in theirs):
            shared = {_REFUSAL}
        for layer in shared:
            compared[layer] = compared.get(layer, 0) + 1
            if ours.get(layer) != theirs.get(layer):
                differing.setdefault(layer, []).append(name)
    return [
        {
            "planners": [first, second],
            "layer": layer,
            "topologies": compared[layer],
            "differing": len(differing.get(layer, ())),
            "first": differing.get(layer, [None])[0],
        }
        for layer in (*_LAYERS, _REFUSAL)
        if layer in compared
    ]


def _digest(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


_CHANGED = {dict, list, float}


def _plain(value: Any) -> Any:
    """Return a value without nulls, floats rounded to nine digits.

    Most members are numbers of tasks, which need no call.
    """
    if isinstance(value, dict):
        return {
            key: _plain(member) if type(member) in _CHANGED else member
            for key, member in value.items()
            if member is not None
        }
    if isinstance(value, list):
        return [_plain(member) if type(member) in _CHANGED else member for member in value]
    return round(value, 9) if isinstance(value, float) else value


def _stream_graph(graph: Mapping[str, Any]) -> Any:
    edges: dict[str, list[Any]] = {}
    for edge in graph["edges"]:
        edges.setdefault(str(edge["source"]), []).append(edge)
    return {"nodes": sorted(graph["nodes"], key=lambda node: int(node["id"])), "edges": edges}


def _job_graph(graph: Mapping[str, Any]) -> Any:
    vertices = [dict(vertex) for vertex in _by_id(graph["vertices"])]
    for group in ("slot_sharing_group", "co_location_group"):
        first: dict[Any, str] = {}
        for vertex in vertices:
            if vertex.get(group) is not None:
                vertex[group] = first.setdefault(vertex[group], vertex["id"])
    for vertex in vertices:
        vertex["operators"] = sorted(vertex["operators"], key=lambda operator: int(operator["node"]))
    return {"vertices": vertices, "topological_order": graph["topological_order"]}


def _by_id(vertices: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(vertices, key=lambda vertex: str(vertex["id"]))


_LAYERS: dict[str, Callable[[Any], Any]] = {
    "stream_graph": _stream_graph,
    "job_graph": _job_graph,
    "execution_graph": lambda graph: _by_id(graph["vertices"]),
    "slots": sorted,
}


PLANNERS_DISAGREE = "PlannersDisagree"
"""The error of a topology for which Flink's plan differs from Penstock's."""

_DISAGREE_HINT = "this is a bug in Penstock: please report it with the topology"


def plan_beside_flink(
    source: Source, options: PlanOptions = DEFAULT_OPTIONS, out: str | None = None, report: Report = SILENT
) -> PlanResult:
    """Plan like plan_in_process, and check every topology against the plan of the real Flink.

    Flink's plan JSON lacks some columns, so the tables are the columnar planner's, and Flink plans the same
    topologies: a topology is in them only if every value in plan JSON (ids, names, parallelism, partitioners,
    chains, data sets, slots, …) is the same in both. Topologies that Flink refuses are in `rejected` with its
    exception and message, StackOverflowError included, and at stage `unsupported` if Flink has no API for
    them; if the two plans differ, the error is PLANNERS_DISAGREE. Network buffers, managed memory in bytes
    and other columns that plan JSON lacks are Penstock's alone.

    Raises ConfigurationError (the extra `flink`, Java or javac are missing, or the slot sharing strategy is
    not Flink's default), FlinkPlannerError, InputError, LostTopologiesError.
    """
    if options.slot_sharing_strategy != DEFAULT_SLOT_SHARING_STRATEGY:
        raise ConfigurationError(
            f"--planner flink: slot sharing must be {DEFAULT_SLOT_SHARING_STRATEGY}, "
            f"got {options.slot_sharing_strategy}"
        )
    compiled_planner(flink_jars(), require_java())
    read = source if isinstance(source, TopologyTables) else read_in_process(source, options, report)
    ours = plan_in_process(read, options, None, report)
    report("plan with flink")
    theirs = plan_with_flink(_lines(read), options.until).plans
    report("compare")
    refusals = _refusals(ours.tables, read, {plan["name"]: plan for plan in theirs})
    planned = _with_refusals(ours, read.topologies, refusals) if refusals else ours
    return planned if out is None else write_result(planned, out, options, report)


def _lines(read: TopologyTables) -> Iterator[str]:
    """Return a line for each valid topology; for a stream graph only its name, so that Flink refuses it."""
    as_written = pl.col("form") == str(TopologyForm.TRANSFORMATIONS)
    written = to_arrow(read.topologies.filter(as_written), "topologies")
    for batch in lines_of_tables(written, to_arrow(read.transformations, "transformations")):
        for line in batch["value"]:
            yield line.as_py().decode()
    for name in read.topologies.filter(~as_written)["name"]:
        yield orjson.dumps({"name": name, "stream_graph": {}}).decode()


def _refusals(
    tables: Mapping[str, pa.Table], read: TopologyTables, theirs: Mapping[str, dict[str, Any]]
) -> dict[str, tuple[str, str, str]]:
    """Return name to stage, error and message, for topologies that Flink refuses or plans differently.

    Topologies rejected while reading stay so: another topology may have the same name.
    """
    refusals = {}
    frames = {name: from_arrow(table) for name, table in tables.items()}
    frames["rejected"] = _among(frames["rejected"], read.topologies, "semi")
    for line in to_plan_lines(frames)["line"]:
        plan = orjson.loads(line)
        if plan["name"] not in theirs:
            continue
        flink = theirs[plan["name"]]
        ours_by_layer, flinks_by_layer = _comparable_layers(plan), _comparable_layers(flink)
        if ours_by_layer == flinks_by_layer:
            continue
        if _REFUSAL in flinks_by_layer:
            refusals[plan["name"]] = (flink["error_stage"], flink["error"], flink["message"])
            continue
        layer = next(
            (name for name in flinks_by_layer if ours_by_layer.get(name) != flinks_by_layer[name]), _REFUSAL
        )
        difference = first_difference(
            flinks_by_layer.get(layer), ours_by_layer.get(layer, plan.get("message"))
        )
        refusals[plan["name"]] = (layer, PLANNERS_DISAGREE, difference)
    return refusals


def first_difference(flinks: Any, penstocks: Any, at: str = "") -> str:
    """Return where two values of plan JSON first differ, and the value of each there."""
    if isinstance(flinks, dict) and isinstance(penstocks, dict):
        for key in (*flinks, *(key for key in penstocks if key not in flinks)):
            if flinks.get(key) != penstocks.get(key):
                return first_difference(flinks.get(key), penstocks.get(key), f"{at}/{key}")
    if isinstance(flinks, list) and isinstance(penstocks, list) and len(flinks) == len(penstocks):
        for place, (flinks_item, other) in enumerate(zip(flinks, penstocks, strict=True)):
            if flinks_item != other:
                return first_difference(flinks_item, other, f"{at}/{place}")
    return f"at {at or '/'} Flink has {_shortened(flinks)}, Penstock {_shortened(penstocks)}"


def _shortened(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"


def _with_refusals(
    ours: PlanResult, topologies: pl.DataFrame, refusals: Mapping[str, tuple[str, str, str]]
) -> PlanResult:
    """Return the tables without those topologies, which become rows of `rejected`."""
    rows = topologies.filter(pl.col("name").is_in(list(refusals))).select(
        TOPOLOGY, "name", "source_file", "source_line"
    )
    added = pa.Table.from_pylist([_rejected(row, *refusals[row["name"]]) for row in rows.to_dicts()])
    refused = np.sort(rows[TOPOLOGY].to_numpy())
    tables = {
        name: to_arrow(without_topologies(from_arrow(table), refused), name)
        for name, table in ours.tables.items()
        if name != "rejected"
    }
    other_rejected = _among(from_arrow(ours.tables["rejected"]), rows, "anti")
    schema = TABLES["rejected"]
    rejected = pa.concat_tables(
        [to_arrow(other_rejected, "rejected"), added.select(schema.names).cast(schema)]
    )
    planned = len(tables["topologies"])
    require_nothing_lost(ours.inputs, planned, len(rejected), len(tables["topologies"][TOPOLOGY].unique()))
    return replace(ours, tables={**tables, "rejected": rejected}, planned=planned, rejected=len(rejected))


def _among(rejected: pl.DataFrame, topologies: pl.DataFrame, how: Literal["semi", "anti"]) -> pl.DataFrame:
    """Return the rows of `rejected` that are among `topologies` (`semi`) or not (`anti`).

    Rows match by name, file and line, and never if rejected at stage `input`: an array on one line may repeat
    a name of `topologies`.
    """
    place = ["name", "source_file", "source_line"]
    as_read = pl.col("error_stage") == INPUT_STAGE
    others = rejected.filter(~as_read)
    among = others.join(topologies, on=place, how=how, nulls_equal=True, maintain_order="left")
    return among if how == "semi" else pl.concat([rejected.filter(as_read), among])


def _rejected(row: dict[str, Any], stage: str, error: str, message: str) -> dict[str, Any]:
    hint = _DISAGREE_HINT if error == PLANNERS_DISAGREE else HINT
    message = limited(message)
    reason = {"error": error, "location": "topology", "found": message, "allowed": ALLOWED, "hint": hint}
    return {**row, "error_stage": stage, "error": error, "message": message, "errors": [reason]}


# Compare Penstock's plans of captured jobs with Flink's plans from the same process.


def verify_captured(lines: Sequence[str], flinks: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return, by name of each job that Flink planned, where Penstock's plan of its line differs.

    `lines` are topology lines, `flinks` plan JSON. Only layers in Flink's plan are compared: versions of
    Flink other than 2.3 give no ExecutionGraph. An empty list means that all of them are equal. Flink 1 draws
    the ids of data sets at random: there, these are compared by vertex and place.
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
    theirs, own = _comparable_layers(flink), _comparable_layers(ours)
    if drawn:
        theirs, own = _with_data_sets_by_place(theirs), _with_data_sets_by_place(own)
    if _REFUSAL in theirs or _REFUSAL in own:
        if theirs.get(_REFUSAL) == own.get(_REFUSAL):
            return []
        return [first_difference(theirs.get(_REFUSAL, "a plan"), own.get(_REFUSAL, "a plan"), f"/{_REFUSAL}")]
    from_flink = str(Layer.STREAM_GRAPH)  # Penstock has it from Flink
    return [
        first_difference(value, own.get(layer), f"/{layer}")
        for layer, value in theirs.items()
        if layer != from_flink and own.get(layer) != value
    ]


def _with_data_sets_by_place(layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layers with each data set's id replaced by its vertex and its place among the outputs."""
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
