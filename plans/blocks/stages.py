"""The jobs of a giant in blocks and their stages, and what the driver derives from their messages."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from typing import NamedTuple

import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from penstock.plans.blocks.edges import cut_chains, find_cuts, make_edges, walk_graph
from penstock.plans.blocks.giant import (
    EXCESS,
    EXPLAINED,
    REASONS,
    SUMMARY,
    TAKEN,
    UNBOUNDED,
    WAYS,
    WRITTEN,
    Giant,
    Traits,
)
from penstock.plans.blocks.messages import Inbox, Message, Stage
from penstock.plans.blocks.nodes import answer, answer_graph, export, inherit_groups, make_nodes, send_virtual
from penstock.plans.blocks.read import (
    explain,
    find_excess,
    find_taken_node_ids,
    find_unbounded_source,
    find_wrong_numbers,
    number_all_sinks,
    read,
    read_graph,
    send_links,
    send_node_ids,
    send_numbers,
    show_wrong_rows,
)
from penstock.plans.blocks.vertices import (
    connect_dynamic,
    decide_parallelism,
    finish,
    make_vertices,
    to_vertices,
    walk_vertices,
)
from penstock.plans.errors import INPUT_STAGE
from penstock.plans.frames.polars_frames import empty
from penstock.plans.frames.polars_refusals import first_refusals, first_refused, reject_refused
from penstock.plans.layers import layers_until
from penstock.plans.stream_graph.resolve_virtual_nodes import (
    FIRST_VIRTUAL,
    KINDS,
    most_edges,
    too_many_edges,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.canonical_texts import canonical_headers
from penstock.plans.topology.fingerprint import BLOCK, fingerprint
from penstock.plans.topology.job_settings import may_run_as_batch
from penstock.plans.topology.lines_of_tables import topologies_without_rows
from penstock.plans.topology.normalized_tables import to_nullable_arrow
from penstock.plans.topology.parse_lines import shown
from penstock.plans.topology.read_topology_tables import settings_of_topologies
from penstock.plans.topology.topologies_of_lines import (
    RejectedTopology,
    no_topology,
    rejected_rows,
    row_errors,
    topology_holds,
)
from penstock.plans.vocabulary import Kind, Layer

Function = Callable[[Giant, int, Inbox], Iterator[Message]]


class Step(NamedTuple):
    """A stage and its name.

    `walks`: it runs in one task, over the messages to WALK; otherwise in each block. `reads_rows`: it gets
    the rows that the first job has read.
    """

    name: str
    stage: Stage
    walks: bool = False
    reads_rows: bool = False


ROWS = "rows"
"""The message that the first job keeps for steps that read rows."""


class Job(NamedTuple):
    """Steps of one Spark job. The first job reads the rows; other jobs begin with its messages.

    `plans`: the messages to PLAN are the tables of the plan.
    """

    name: str
    steps: list[Step]
    plans: bool = False


Said = Mapping[str, pl.DataFrame]
"""Messages to the driver, by kind."""


class Finished(NamedTuple):
    """The result of a giant: its row of `rejected`, or its rows of topologies and job_settings.

    `files`: (table, path, rows) of the written tables.
    """

    rejected: pl.DataFrame
    topologies: pl.DataFrame
    job_settings: pl.DataFrame
    files: Sequence[tuple[str, str, int]] = ()


Jobs = Generator[Job, Said, Finished]
"""Yields jobs to run; takes the messages that each of them has sent to the driver."""


def jobs_of_giant(giant: Giant, topology: pl.DataFrame, settings: pl.DataFrame | None = None) -> Jobs:
    """Plan the giant with these rows of topologies: one if it is right, any number of given ones.

    `settings`: its row of job_settings if it is validated. Given topologies are rejected with the errors that
    read_topology_tables finds.
    """
    rejected = _errors_of_own_rows(giant, topology)
    if rejected is not None:
        return _rejected(rejected)
    said = yield Job("read blocks", [_step(giant, read_graph if giant.graph else read)])
    files = _files(said)
    if settings is None:
        giant = giant._replace(header=topologies_without_rows(to_nullable_arrow(topology, "topologies"))[0])
        holds = _holds(giant, topology, said)
        if holds and said[SUMMARY]["highest_node_id"].null_count() < giant.blocks:
            found = yield Job("compare node ids", _comparing_node_ids(giant))
            holds = not found[TAKEN]["taken"].any()
        if not holds:
            found = yield Job("find wrong rows", _explaining(giant))
            if EXPLAINED in found:
                return _rejected([_refusal(topology, *orjson.loads(found[EXPLAINED]["refusal"][0]))])
        reads_unbounded = False
        if _depends_on_sources(topology, said):
            found = yield Job("find unbounded sources", _walking(giant, find_unbounded_source))
            reads_unbounded = found[UNBOUNDED]["reads"].any()
        unbounded = topology[TOPOLOGY] if reads_unbounded else topology[TOPOLOGY].clear()
        settings, refused = settings_of_topologies(topology, unbounded)
        if refused:
            stage, errors = refused[0]
            return _rejected([_refusal(topology, stage, list(map(shown, errors)))])
        topology = topology.with_columns(fingerprint=pl.lit(_fingerprint(topology, said)))
    giant = giant._replace(traits=_traits(said)).with_settings(settings)
    chosen = steps(giant)
    if chosen:
        said = yield Job("plan blocks", chosen, plans=True)
        files += _files(said)
        if WAYS in said and said[WAYS]["ways"].sum() > most_edges(giant.starts[-1] - 1):
            found = yield Job("count edges", _walking(giant, find_excess))
            (excess,) = found[EXCESS].select("id", "ways", "most").rows()
            return _rejected([_refusal(topology, INPUT_STAGE, [too_many_edges(*excess)])])
    reasons = said.get(REASONS, pl.DataFrame())
    refusals = [
        first_refusals([reasons.filter(pl.col("error_stage") == str(layer))])
        for layer in layers_until(giant.options.until)
        if not reasons.is_empty()
    ]
    rows = reject_refused(first_refused(refusals), topology, settings)
    if len(rows):
        return _rejected(rows)
    return Finished(rows, topology, settings, files)


def messages_to_driver(messages: Iterable[tuple[str, pa.Table]]) -> Said:
    """Return messages to the driver by kind."""
    by_kind: dict[str, list[pl.DataFrame]] = {}
    for kind, rows in messages:
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        by_kind.setdefault(kind, []).append(frame)
    return {kind: pl.concat(frames, how="vertical_relaxed") for kind, frames in by_kind.items()}


def starts_of_blocks(rows: int, rows_of_a_block: int, *, given: bool) -> tuple[int, ...]:
    """Return the first id of each block, and the end, for the ids 1, 2, …

    Rows that are not validated are digested BLOCK at a time.
    """
    size = max(1, rows_of_a_block)
    if given:
        size = ceil(size / BLOCK) * BLOCK
    return (*range(1, rows + 1, size), rows + 1)


# Stages.


def steps(giant: Giant) -> list[Step]:
    """Return the stages that plan a giant, after its rows were read."""
    chosen: list[Step] = []
    if giant.has(Layer.STREAM_GRAPH) or giant.traits.unions:  # which may expand to too many edges
        chosen += [] if giant.graph else _to_nodes(giant)
    if giant.has(Layer.STREAM_GRAPH):
        chosen += [
            *([_step(giant, inherit_groups, walks=True)] if giant.traits.named_groups else []),
            _step(giant, answer_graph if giant.graph else answer),
            _step(giant, make_edges),
            *([_step(giant, find_cuts, walks=True), _step(giant, cut_chains)] if giant.traits.cuts else []),
        ]
    if giant.has(Layer.JOB_GRAPH):
        decided = [_step(giant, decide_parallelism, walks=True), _step(giant, connect_dynamic)]
        chosen += [
            _step(giant, walk_graph, walks=True),
            _step(giant, to_vertices),
            _step(giant, make_vertices),
            *(decided if giant.dynamic else []),
            _step(giant, walk_vertices, walks=True),
            _step(giant, finish),
        ]
    return chosen


def _to_nodes(giant: Giant) -> list[Step]:
    several, traits = giant.blocks > 1, giant.traits
    in_blocks = [*([export] if several else []), *([send_links] if traits.sinks else [])]
    walks = [
        *([send_virtual] if several and traits.virtual else []),
        *([number_all_sinks] if traits.sinks else []),
    ]
    return [
        *([_step(giant, *in_blocks, reads_rows=traits.sinks)] if in_blocks else []),
        *([_step(giant, *walks, walks=True)] if walks else []),
        _step(giant, make_nodes, reads_rows=True),
    ]


def _explaining(giant: Giant) -> list[Step]:
    return [
        _step(giant, send_numbers, reads_rows=True),
        _step(giant, find_wrong_numbers, walks=True),
        _step(giant, show_wrong_rows),
        _step(giant, explain, walks=True),
    ]


def _comparing_node_ids(giant: Giant) -> list[Step]:
    return [_step(giant, send_node_ids, reads_rows=True), _step(giant, find_taken_node_ids, walks=True)]


def _walking(giant: Giant, walk: Function) -> list[Step]:
    """Return the stages of a walk over the inputs of all rows."""
    return [_step(giant, send_links, reads_rows=True), _step(giant, walk, walks=True)]


def kept_after(chosen: Sequence[Step]) -> set[str]:
    """Return the steps after which tables of the plan are kept: the last of the stream graph, the last."""
    of_stream_graph = [step.name for step in chosen if step.name in ("make_edges", "cut_chains")]
    return {step.name for step in chosen[-1:]} | set(of_stream_graph[-1:])


def _step(giant: Giant, *functions: Function, walks: bool = False, reads_rows: bool = False) -> Step:
    name = " and ".join(function.__name__ for function in functions)
    return Step(name, partial(_run_all, functions, giant), walks, reads_rows)


def _run_all(functions: Sequence[Function], giant: Giant, to: int, inbox: Inbox) -> Iterator[Message]:
    for function in functions:
        yield from function(giant, to, inbox)


# Given topologies, and the properties of rows that the first job reports.


def _errors_of_own_rows(giant: Giant, topology: pl.DataFrame) -> list[RejectedTopology] | None:
    """Return the topologies that the errors of rows of the table `topologies` reject."""
    if topology.is_empty():
        errors = no_topology([giant.topology])
        return [RejectedTopology(None, None, None, INPUT_STAGE, [error]) for error in errors]
    if not giant.given:
        return None
    wrong = row_errors(*(topology[name].to_list() for name in (TOPOLOGY, "name", "form")))
    return [_refusal(topology[row], INPUT_STAGE, [error]) for row, error in wrong.items()] or None


def _refusal(topology: pl.DataFrame, stage: str, errors: list[Mapping[str, str]]) -> RejectedTopology:
    name, file, line = topology.select("name", "source_file", "source_line").row(0)
    return RejectedTopology(name, file, line, stage, errors)


def _rejected(rows: list[RejectedTopology] | pl.DataFrame) -> Finished:
    rejected = rows if isinstance(rows, pl.DataFrame) else rejected_rows(rows)
    return Finished(rejected, empty("topologies"), empty("job_settings"))


def _files(said: Said) -> list[tuple[str, str, int]]:
    return said[WRITTEN].select("table", "path", "rows").rows() if WRITTEN in said else []


def _holds(giant: Giant, topology: pl.DataFrame, said: Said) -> bool:
    sound = len(said[SUMMARY]) == giant.blocks and said[SUMMARY]["sound"].all()
    return bool(sound and topology.select(topology_holds()).item())


def _kinds(said: Said) -> dict[Kind, int]:
    counts = np.sum([np.zeros(len(KINDS), np.int64), *said[SUMMARY]["kinds"].to_list()], axis=0)
    return dict(zip(KINDS, counts.tolist(), strict=True))


def _depends_on_sources(topology: pl.DataFrame, said: Said) -> bool:
    config = dict(topology["config"].to_arrow().to_pylist()[0])
    return said[SUMMARY]["legacy_by_bounds"].sum() > 0 and may_run_as_batch(config)


def _highest_node_id(said: Said) -> int:
    highest = said[SUMMARY]["highest_node_id"].max()
    return max(0, highest) if isinstance(highest, int) else 0


def _traits(said: Said) -> Traits:
    kinds = _kinds(said)
    return Traits(
        unions=kinds[Kind.UNION] > 0,
        virtual=any(kinds[kind] for kind in KINDS[FIRST_VIRTUAL:]),
        named_groups=bool(said[SUMMARY]["named_groups"].any()),
        cuts=kinds[Kind.LEGACY_SOURCE] > 0
        and (kinds[Kind.ASYNC] + kinds[Kind.WRITER] > 0 or bool(said[SUMMARY]["expands_sinks"].any())),
        sinks=bool(said[SUMMARY]["expands_sinks"].any()),
        highest_node_id=_highest_node_id(said),
    )


def _fingerprint(topology: pl.DataFrame, said: Said) -> str:
    (header,) = canonical_headers(topology)
    digests = said[SUMMARY].sort("block")["digests"].to_list()
    return fingerprint(header, [digest for of_block in digests for digest in of_block])
