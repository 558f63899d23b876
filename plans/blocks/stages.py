"""The stages of a giant in blocks, which giants they plan, and what the driver makes of what they say."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.blocks.edges import cut_chains, find_cuts, make_edges, walk_graph
from penstock.plans.blocks.giant import OTHER_WAY, REASONS, SUMMARY, WAYS, WRITTEN, Giant, Traits
from penstock.plans.blocks.messages import Inbox, Message, Stage
from penstock.plans.blocks.nodes import answer, export, inherit_groups, make_nodes, read, send_virtual
from penstock.plans.blocks.vertices import (
    connect_dynamic,
    decide_parallelism,
    finish,
    make_vertices,
    to_vertices,
    walk_vertices,
)
from penstock.plans.frames.polars_refusals import first_refusals, first_refused
from penstock.plans.layers import Choices, layers_until
from penstock.plans.stream_graph.columnar.resolve_virtual_nodes import FIRST_VIRTUAL, KINDS, most_edges
from penstock.plans.topology.columnar.canonical_texts import canonical_headers
from penstock.plans.topology.fingerprint import BLOCK, fingerprint
from penstock.plans.topology.job_settings import may_run_as_batch
from penstock.plans.vocabulary import Kind, Layer, TopologyForm


class Step(NamedTuple):
    """A stage and its name; `walks`: one task has what was sent to WALK, and blocks have nothing to do."""

    name: str
    stage: Stage
    walks: bool = False


ROWS, READ_AGAIN = "rows", "make_nodes"
"""What the first job keeps for the stage of that name; the stages before do without."""


def first_step(giant: Giant) -> Step:
    """The stage of the first job."""
    return _step(giant, read)


def steps(giant: Giant) -> list[Step]:
    """The stages of the second job, which begins with what the first one has kept."""
    traits, several = giant.traits, giant.blocks > 1
    chosen: list[tuple[Callable[[Giant, int, Inbox], Iterator[Message]], bool]] = []
    if giant.has(Layer.STREAM_GRAPH) or traits.unions:  # which may expand to too many edges
        chosen += [
            *([(export, False)] if several else []),
            *([(send_virtual, True)] if several and traits.virtual else []),
            (make_nodes, False),
        ]
    if giant.has(Layer.STREAM_GRAPH):
        chosen += [
            *([(inherit_groups, True)] if traits.named_groups else []),
            (answer, False),
            (make_edges, False),
            *([(find_cuts, True), (cut_chains, False)] if traits.cuts else []),
        ]
    if giant.has(Layer.JOB_GRAPH):
        chosen += [
            (walk_graph, True),
            (to_vertices, False),
            (make_vertices, False),
            *([(decide_parallelism, True), (connect_dynamic, False)] if giant.dynamic else []),
            (walk_vertices, True),
            (finish, False),
        ]
    return [_step(giant, function, walks=walks) for function, walks in chosen]


def kept_after(chosen: Sequence[Step]) -> set[str]:
    """The steps after which tables of the plan wait until they are read: the last of the stream graph, the
    last of all.
    """
    of_stream_graph = [step.name for step in chosen if step.name in ("make_edges", "cut_chains")]
    return {step.name for step in chosen[-1:]} | set(of_stream_graph[-1:])


def _step(
    giant: Giant, function: Callable[[Giant, int, Inbox], Iterator[Message]], *, walks: bool = False
) -> Step:
    return Step(function.__name__, partial(function, giant), walks)


# Which giants blocks plan, and in how many.


def starts_of_blocks(rows: int, rows_of_a_block: int, *, given: bool) -> tuple[int, ...]:
    """The first id of each block and the end. Rows that are not validated are digested BLOCK at a time."""
    size = max(1, rows_of_a_block)
    if given:
        size = ceil(size / BLOCK) * BLOCK
    return (*range(1, rows + 1, size), rows + 1)


def planned_otherwise(topology: pl.DataFrame, settings: pl.DataFrame, choices: Choices) -> str | None:
    """Why blocks do not plan a topology with this row of topologies and of job_settings; None if they may."""
    if len(topology) != 1 or len(settings) != 1:
        return "it is not one sound topology"
    reasons = {
        "it was given as a stream graph": topology["form"][0] != TopologyForm.TRANSFORMATIONS,
        "others decide in place of Flink's rules": bool(choices.decided),
    }
    return next((why for why, holds in reasons.items() if holds), None)


class Looked(NamedTuple):
    """What the first job found: the digests of all rows, and what blocks have to be prepared for.

    `otherwise`: why blocks do not plan it, or None.
    """

    digests: list[str]
    traits: Traits
    otherwise: str | None


def looked(giant: Giant, said: Mapping[str, pl.DataFrame], config: Mapping[str, str]) -> Looked:
    """`said`: what was sent to the driver, by kind; `config`: the configuration of the topology."""
    summary = said[SUMMARY].sort("block")
    kinds = np.sum([np.zeros(len(KINDS), np.int64), *summary["kinds"].to_list()], axis=0)

    def has(*chosen: Kind) -> bool:
        return any(kinds[KINDS.index(kind)] for kind in chosen)

    traits = Traits(
        unions=has(Kind.UNION),
        virtual=bool(kinds[FIRST_VIRTUAL:].any()),
        named_groups=bool(summary["named_groups"].any()),
        cuts=has(Kind.LEGACY_SOURCE) and has(Kind.ASYNC, Kind.WRITER),
    )
    otherwise = None
    if len(summary) < giant.blocks or not summary["sound"].all():
        otherwise = "a row may be wrong"
    elif summary["expands_sinks"].any():
        otherwise = "sinks of it become several operators"
    elif summary["has_details"].any():
        otherwise = "transformations have keys that few have"
    elif giant.given and has(Kind.LEGACY_SOURCE) and may_run_as_batch(config):
        otherwise = "its job type depends on its sources"
    return Looked([digest for of in summary["digests"] for digest in of], traits, otherwise)


def fingerprint_of(topology: pl.DataFrame, digests: Sequence[str]) -> str:
    """The fingerprint of a topology of given rows."""
    (header,) = canonical_headers(topology)
    return fingerprint(header, digests)


class Outcome(NamedTuple):
    """What became of a giant.

    `otherwise`: it has to be planned in another way, for this reason; `refused`: a row as of first_refusals
    if Flink refuses it; `files`: (table, path, rows) of what was written.
    """

    otherwise: str | None
    refused: pl.DataFrame
    files: list[tuple[str, str, int]]


def outcome(giant: Giant, said: Mapping[str, pl.DataFrame]) -> Outcome:
    """`said`: what was sent to the driver, by kind."""
    files = said[WRITTEN].select("table", "path", "rows").rows() if WRITTEN in said else []
    otherwise = said[OTHER_WAY]["why"][0] if OTHER_WAY in said else None
    if WAYS in said and said[WAYS]["ways"].sum() > most_edges(giant.starts[-1] - 1):
        otherwise = "unions of unions expand to too many edges"
    reasons = said.get(REASONS, pl.DataFrame())
    refused = [
        first_refusals([reasons.filter(pl.col("error_stage") == str(layer))])
        for layer in layers_until(giant.until)
        if not reasons.is_empty()
    ]
    return Outcome(otherwise, first_refused(refused), files)


def said_to_driver(messages: Iterable[tuple[str, pa.Table]]) -> dict[str, pl.DataFrame]:
    """What was sent to the driver, by kind."""
    by_kind: dict[str, list[pl.DataFrame]] = {}
    for kind, rows in messages:
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        by_kind.setdefault(kind, []).append(frame)
    return {kind: pl.concat(frames, how="vertical_relaxed") for kind, frames in by_kind.items()}
