"""Giants in blocks without Spark: messages in lists, and all jobs and stages one after the other."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.blocks.giant import Giant
from penstock.plans.blocks.messages import (
    DRIVER,
    PLAN,
    WALK,
    Message,
    blocks_stage,
    packed,
    parts_of,
    unpacked,
    walk_stage,
)
from penstock.plans.blocks.stages import (
    ROWS,
    Jobs,
    Step,
    jobs_of_giant,
    messages_to_driver,
    starts_of_blocks,
)
from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.layers import DEFAULT_OPTIONS, PlanOptions
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import Layer, TopologyForm

Batches = list[pa.RecordBatch]


def plan_in_blocks(
    tables: TopologyTables, blocks: int, options: PlanOptions = DEFAULT_OPTIONS
) -> dict[str, pa.Table]:
    """The plan's tables of the only topology of `tables`, in about this number of blocks."""
    topology = tables.topologies
    topology_id = topology[TOPOLOGY][0]
    if topology["form"][0] == TopologyForm.TRANSFORMATIONS:
        rows = tables.transformations
        starts = starts_of_blocks(len(rows), -(-len(rows) // blocks), given=False)
        giant = Giant(topology_id, starts, options)
        given = _divided(giant, "given", rows, "id")
    else:
        ids = np.sort(tables.stream_nodes["id"].to_numpy())
        starts = tuple({*ids[:: -(-len(ids) // blocks)].tolist(), int(ids[-1]) + 1})
        giant = Giant(topology_id, tuple(sorted(starts)), options, graph=True)
        given = _divided(giant, "given", tables.stream_nodes, "id")
        given += _divided(giant, "given_edges", tables.stream_edges, "target")
    return _run_jobs(jobs_of_giant(giant, topology, tables.job_settings), given)


def plan_given_in_blocks(
    topology_id: int, topologies: pl.DataFrame, rows: pl.DataFrame, starts: tuple[int, ...], until: Layer
) -> dict[str, pa.Table]:
    """The same for a topology of given tables, which are normalized and not validated."""
    here = pl.col(TOPOLOGY) == topology_id
    giant = Giant(topology_id, starts, PlanOptions(until), given=True)
    given = _divided(giant, "given", rows.filter(here), "id")
    return _run_jobs(jobs_of_giant(giant, topologies.filter(here)), given)


def _divided(giant: Giant, kind: str, rows: pl.DataFrame, key: str) -> Batches:
    """Rows in any order as messages to their blocks, two to each."""
    shuffled = rows.sample(fraction=1.0, shuffle=True, seed=1)
    owners = np.clip(giant.owners(shuffled[key].fill_null(0).to_numpy()), 0, giant.blocks - 1)
    return [
        batch
        for block in np.unique(owners).tolist()
        for part in (shuffled.filter(pl.Series(values=owners == block)),)
        for piece, (start, end) in enumerate(pairwise([0, len(part) // 2, len(part)]))
        for batch in packed(Message(block, kind, part.slice(start, end - start)), piece)
    ]


def _run_jobs(jobs: Jobs, given: Batches) -> dict[str, pa.Table]:
    first: Batches = []
    made: dict[str, list[pa.Table]] = defaultdict(list)
    try:
        job = next(jobs)
        while True:
            if first:
                messages = [row for row in first if _to(row) >= WALK and _kind(row) != ROWS]
                for step in job.steps:
                    messages += [row for row in first if _kind(row) == ROWS] if step.reads_rows else []
                    messages = _run(messages, step)
            else:
                first = messages = _run(given, job.steps[0])
            for to, kind, _, _, data in _parts(messages):
                if to == PLAN:
                    made[kind].append(unpacked(data))
            job = jobs.send(
                messages_to_driver(
                    (kind, unpacked(data)) for to, kind, _, _, data in _parts(messages) if to == DRIVER
                )
            )
    except StopIteration as ended:
        finished = ended.value
    tables = {"rejected": to_arrow(finished.rejected, "rejected")}
    if len(finished.rejected):
        return tables
    tables |= {table: pa.concat_tables(parts) for table, parts in made.items()}
    few: Mapping[str, pl.DataFrame] = finished._asdict()
    return tables | {table: to_arrow(few[table], table) for table in ("topologies", "job_settings")}


def _to(row: pa.RecordBatch) -> int:
    return int(row["to"][0].as_py())


def _kind(row: pa.RecordBatch) -> str:
    return str(row["kind"][0].as_py())


def _parts(messages: Batches) -> Iterable[tuple[int, str, int, int, pa.Buffer]]:
    for batch in messages:
        yield from parts_of(batch)


def _run(messages: Batches, step: Step) -> Batches:
    run = walk_stage(step.stage) if step.walks else blocks_stage(step.stage)
    # As after a shuffle, not in the order of senders.
    return list(run(iter(sorted(messages, key=lambda batch: -batch["sender"][0].as_py()))))
