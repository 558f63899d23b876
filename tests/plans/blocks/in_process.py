"""Giants in blocks without Spark: messages in dictionaries, and all stages one after the other."""

from collections import defaultdict
from collections.abc import Iterable

import polars as pl
import pyarrow as pa

from penstock.plans.blocks.giant import Giant
from penstock.plans.blocks.messages import (
    DRIVER,
    PLAN,
    Message,
    blocks_stage,
    packed,
    parts_of,
    unpacked,
    walk_stage,
)
from penstock.plans.blocks.stages import (
    READ_AGAIN,
    ROWS,
    first_step,
    looked,
    outcome,
    planned_otherwise,
    said_to_driver,
    starts_of_blocks,
    steps,
)
from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.frames.polars_refusals import reject_refused
from penstock.plans.layers import Choices
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import Layer


def plan_in_blocks(
    tables: TopologyTables, rows_of_a_block: int, until: Layer = Layer.SLOTS, choices: Choices | None = None
) -> dict[str, pa.Table] | str:
    """The plan's tables of the only topology of `tables`, or why blocks do not plan it."""
    choices = choices or Choices()
    topologies, settings = tables.topologies, tables.job_settings
    why = planned_otherwise(topologies, settings, choices)
    if why is not None:
        return why
    rows = tables.transformations.sample(fraction=1.0, shuffle=True, seed=1)
    giant = Giant(
        topologies[TOPOLOGY][0],
        starts_of_blocks(len(rows), rows_of_a_block, given=False),
        _settings(settings),
        until,
        choices,
        dynamic=settings["dynamic"][0],
    )
    given = giant.owners(rows["id"].to_numpy())
    messages = [
        batch
        for block in range(giant.blocks)
        for part in (rows.filter(pl.Series(values=given == block)),)
        for piece, half in enumerate((part[: len(part) // 2], part[len(part) // 2 :]))
        for batch in packed(Message(block, "given", half), piece)
    ]
    messages = _run(messages, first_step(giant))
    found = looked(giant, _said(messages), {})
    if found.otherwise is not None:
        return found.otherwise
    giant = giant._replace(traits=found.traits)
    kept = [batch for batch in messages if batch["kind"][0].as_py() == ROWS]
    messages = [batch for batch in messages if batch["kind"][0].as_py() not in (ROWS, "summary")]
    for step in steps(giant):
        if step.name == READ_AGAIN:
            messages += kept
        messages = _run(messages, step)
    became = outcome(giant, _said(messages))
    if became.otherwise is not None:
        return became.otherwise
    made: dict[str, list[pa.Table]] = defaultdict(list)
    for batch in messages:
        for to, kind, _, _, data in parts_of(batch):
            if to == PLAN:
                made[kind].append(unpacked(data))
    if len(became.refused):
        rejected = to_arrow(reject_refused(became.refused, topologies, settings), "rejected")
        return {"rejected": rejected}
    return {
        "topologies": to_arrow(topologies, "topologies"),
        "job_settings": to_arrow(settings, "job_settings"),
        **{table: pa.concat_tables(parts) for table, parts in made.items()},
    }


def _settings(settings: pl.DataFrame) -> bytes:
    (batch,) = packed(Message(0, "", settings), 0)
    return bytes(batch["data"][0].as_py())


def _run(messages: Iterable[pa.RecordBatch], step) -> list[pa.RecordBatch]:
    run = walk_stage(step.stage) if step.walks else blocks_stage(step.stage)
    # As they come out of a shuffle: in no order of their senders.
    return list(run(iter(sorted(messages, key=lambda batch: -batch["sender"][0].as_py()))))


def _said(messages: Iterable[pa.RecordBatch]) -> dict[str, pl.DataFrame]:
    return said_to_driver(
        (kind, unpacked(data))
        for batch in messages
        for to, kind, _, _, data in parts_of(batch)
        if to == DRIVER
    )
