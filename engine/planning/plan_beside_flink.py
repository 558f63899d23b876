"""Planning by Flink itself, into the tables that every planner gives."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from penstock.engine.flink.flink_jars import compiled_planner, flink_jars
from penstock.engine.flink.plan_with_flink import plan_with_flink
from penstock.engine.planning.digest_plans import REFUSAL, comparable_layers
from penstock.engine.planning.foresee_memory import require_memory_to_read_on
from penstock.engine.planning.nothing_lost import require_nothing_lost
from penstock.engine.planning.plan_in_process import PlannedTables, plan_frames
from penstock.engine.spark.find_java import require_java
from penstock.plans.error_kinds import INPUT_STAGE
from penstock.plans.errors import ALLOWED, HINT, ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.frames.polars_refusals import without_topologies
from penstock.plans.layers import Choices
from penstock.plans.plan_json.columnar.to_plan_lines import to_plan_lines
from penstock.plans.planners.plan_as_read import Topologies, read_topologies
from penstock.plans.printable import limited
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.lines_of_tables import lines_of_tables
from penstock.plans.topology.columnar.topology_tables import TopologyTables
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.vocabulary import DEFAULT_SLOT_SHARING_STRATEGY, Layer, TopologyForm

PLANNERS_DISAGREE = "PlannersDisagree"
"""The error of a topology for which Flink's plan says something else than Penstock's."""

_DISAGREE_HINT = "this is a bug in Penstock: please report it with the topology"


def plan_beside_flink(
    topologies: Topologies,
    *,
    until: Layer = Layer.SLOTS,
    choices: Choices | None = None,
    report: Callable[[str], None] = lambda stage: None,
    max_line_bytes: int = MAX_LINE_BYTES,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> PlannedTables:
    """As engine.planning.plan_in_process.plan_in_process, with Flink's word on every topology.

    Flink's plan JSON does not hold all columns, so the tables are those of the columnar planner, and Flink
    plans the same topologies: a topology is in them only where every value that plan JSON shows (ids, names,
    parallelism, partitioners, chains, data sets, slots, …) is the same in both. What Flink refuses is in
    `rejected` with its exception and message, StackOverflowError too, and at stage `unsupported` what Flink
    has no API for; where the two differ the error is PLANNERS_DISAGREE. Network buffers, managed memory in
    bytes and other columns that plan JSON does not show are Penstock's alone.

    Raises ConfigurationError (the extra `flink`, Java or javac are missing; another slot sharing strategy
    than Flink's default), FlinkPlannerError, InputError, LostTopologiesError.
    """
    wanted = choices or Choices()
    if wanted.slot_sharing_strategy != DEFAULT_SLOT_SHARING_STRATEGY:
        raise ConfigurationError(
            f"--planner flink: found slot sharing {wanted.slot_sharing_strategy}, "
            f"allowed {DEFAULT_SLOT_SHARING_STRATEGY}"
        )
    compiled_planner(flink_jars(), require_java())
    report("read topologies")
    read = read_topologies(
        topologies,
        max_line_bytes=max_line_bytes,
        before_block=require_memory_to_read_on,
        job_defaults=job_defaults,
    )
    frames = read._asdict()
    ours = plan_frames(frames, frames.pop("inputs"), until, wanted, report)
    report("plan with flink")
    theirs = plan_with_flink(_lines(read), until).plans
    report("compare")
    refusals = _refusals(ours.tables, read, {plan["name"]: plan for plan in theirs})
    return _with_refusals(ours, read.topologies, refusals) if refusals else ours


def _lines(read: TopologyTables) -> Iterator[str]:
    """A line each topology whose input is right; of a stream graph the name, for Flink to say no."""
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
    """Name to stage, error and message, of topologies that Flink plans in another way or not at all.

    What was rejected while it was read stays so: another topology may have its name.
    """
    refusals = {}
    frames = {name: from_arrow(table) for name, table in tables.items()}
    frames["rejected"] = _among(frames["rejected"], read.topologies, "semi")
    for line in to_plan_lines(frames)["line"]:
        plan = orjson.loads(line)
        if plan["name"] not in theirs:
            continue
        flink = theirs[plan["name"]]
        ours_by_layer, by_layer = comparable_layers(plan), comparable_layers(flink)
        if ours_by_layer == by_layer:
            continue
        if REFUSAL in by_layer:
            refusals[plan["name"]] = (flink["error_stage"], flink["error"], flink["message"])
            continue
        layer = next((name for name in by_layer if ours_by_layer.get(name) != by_layer[name]), REFUSAL)
        difference = first_difference(by_layer.get(layer), ours_by_layer.get(layer, plan.get("message")))
        refusals[plan["name"]] = (layer, PLANNERS_DISAGREE, difference)
    return refusals


def first_difference(flinks: Any, penstocks: Any, at: str = "") -> str:
    """Where two values of plan JSON differ first, and what each has there."""
    if isinstance(flinks, dict) and isinstance(penstocks, dict):
        for key in (*flinks, *(key for key in penstocks if key not in flinks)):
            if flinks.get(key) != penstocks.get(key):
                return first_difference(flinks.get(key), penstocks.get(key), f"{at}/{key}")
    if isinstance(flinks, list) and isinstance(penstocks, list) and len(flinks) == len(penstocks):
        for place, (flinks_item, other) in enumerate(zip(flinks, penstocks, strict=True)):
            if flinks_item != other:
                return first_difference(flinks_item, other, f"{at}/{place}")
    return f"at {at or '/'} Flink has {_shown(flinks)}, Penstock {_shown(penstocks)}"


def _shown(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"


def _with_refusals(
    ours: PlannedTables, topologies: pl.DataFrame, refusals: Mapping[str, tuple[str, str, str]]
) -> PlannedTables:
    """The tables without those topologies, which are rows of `rejected` instead of any they had."""
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
    kept = _among(from_arrow(ours.tables["rejected"]), rows, "anti")
    schema = TABLES["rejected"]
    rejected = pa.concat_tables([to_arrow(kept, "rejected"), added.select(schema.names).cast(schema)])
    planned = len(tables["topologies"])
    require_nothing_lost(ours.inputs, planned, len(rejected), len(tables["topologies"][TOPOLOGY].unique()))
    return ours._replace(tables={**tables, "rejected": rejected}, planned=planned, rejected=len(rejected))


def _among(rejected: pl.DataFrame, topologies: pl.DataFrame, how: Literal["semi", "anti"]) -> pl.DataFrame:
    """The rows of `rejected` of `topologies` (`semi`) or of none of them (`anti`), by name, file and line.

    What is rejected at stage `input` is of none: an array on one line may hold a name of `topologies` again.
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
