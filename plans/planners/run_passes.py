"""Passes as they run: with options, and with decisions of custom planners in place of Flink's rules."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from penstock.plans.custom_planners.decisions import ANSWERS, Decision
from penstock.plans.frames.arrays import runs
from penstock.plans.frames.polars_frames import groups, number_in_turn
from penstock.plans.layers import PlanOptions
from penstock.plans.passes import PASSES, Derive, parameters, passes_until
from penstock.plans.stream_graph.choose_partitioners import ALIGNED, CLASSES, POINTWISE
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import FORWARD_CLASSES, Partitioner

# Passes that follow the decisions of custom planners in place of Flink's rules.


Answer = pl.DataFrame
Follow = Callable[..., pl.DataFrame]
"""From (the table of the pass, the answer, further tables) to the table that follows the answer."""


@dataclass(frozen=True, slots=True)
class DecidedPass:
    """A pass whose table is afterwards changed by a custom planner's answer.

    `takes`: tables that the pass reads; `reads`: further tables that the change reads.
    """

    derive: Derive
    takes: tuple[str, ...]
    follow: Follow
    answer: Answer
    reads: tuple[str, ...] = ()

    def __call__(self, **tables: pl.DataFrame) -> pl.DataFrame:
        """Return the table derived from the tables in `takes` and `reads`."""
        further = {name: tables[name] for name in self.reads}
        own = {name: tables[name] for name in self.takes}
        return self.follow(self.derive(**own), self.answer, **further)


def _with_decisions(
    implemented: Mapping[str, Derive], decided: Iterable[tuple[Decision, Answer]]
) -> dict[str, Derive]:
    """Return `implemented` (table to pass) with the passes that decisions concern replaced."""
    changed = dict(implemented)
    for decision, answer in decided:
        for produced, follow, reads in _FOLLOWED[decision]:
            changed[produced] = DecidedPass(
                changed[produced], inputs_of(changed[produced]), follow, answer, reads
            )
    return changed


def _parallelism(stream_nodes: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    decided_parallelism = _look_up_decision(stream_nodes, answer, Decision.PARALLELISM)
    return stream_nodes.with_columns(
        parallelism=pl.coalesce(decided_parallelism, "parallelism"),
        parallelism_configured=decided_parallelism.is_not_null() | stream_nodes["parallelism_configured"],
    )


def _partitioners(edges_with_ends: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    decided_partitioners = _look_up_decision(edges_with_ends, answer, Decision.PARTITIONERS)
    edges = edges_with_ends.with_columns(decided=decided_partitioners)
    changes = (pl.col("decided").is_not_null()) & (pl.col("decided") != pl.col("partitioner"))
    names = {str(p).upper(): p for p in Partitioner}
    named = pl.col("decided").replace_strict(
        {name: CLASSES[p] for name, p in names.items()}, default=None, return_dtype=pl.String
    )
    pointwise = [str(p).upper() for p in POINTWISE]
    aligned = [str(p).upper() for p in ALIGNED]
    before, after = (
        pl.concat_str(pl.lit("_"), part, pl.lit("_"), "unique_id") for part in ("partitioner", "decided")
    )
    columns = {
        "partitioner": pl.col("decided"),
        "partitioner_class": named,
        "partitioner_key": named,
        "pointwise": pl.col("decided").is_in(pointwise),
        "supports_unaligned_checkpoints": ~pl.col("decided").is_in(aligned),
        "edge_id": pl.col("edge_id").str.strip_suffix(before) + after,
        "forward": named.is_in(FORWARD_CLASSES),
    }
    chosen = [pl.when(changes).then(value).otherwise(name).alias(name) for name, value in columns.items()]
    return edges.with_columns(chosen).drop("decided")


def _chaining(marked_edges: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    decided_chaining = _look_up_decision(marked_edges, answer, Decision.CHAINING)
    chained = (pl.col("reasons") == 0) | pl.col("chained_source")
    apart = NotChainableReason.DECIDED_BY_PLANNER.bit
    return (
        marked_edges.with_columns(decided=decided_chaining)
        .with_columns(
            reasons=pl.when(~pl.col("decided") & chained)
            .then(pl.col("reasons") | apart)
            .when(pl.col("decided") & ~pl.col("chained_source"))
            .then(0)
            .otherwise("reasons")
            .cast(marked_edges["reasons"].dtype),
            chained_source=pl.col("chained_source") & pl.col("decided").fill_null(True),
        )
        .drop("decided")
    )


def _slot_sharing_groups(grouped_vertices: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    decided_groups = _look_up_decision(grouped_vertices, answer, Decision.SLOT_SHARING_GROUPS)
    vertices = grouped_vertices.with_columns(decided=decided_groups)
    # A decided group is distinct from Flink's group of the same name.
    vertices = vertices.with_columns(flinks=pl.when(pl.col("decided").is_null()).then("slot_sharing_group"))
    first = groups(vertices, "decided", "flinks")
    is_first = first == np.arange(len(first))
    starts = runs(vertices[TOPOLOGY].to_numpy()).starts
    return vertices.with_columns(
        pl.Series("slot_sharing_group", number_in_turn(first, starts), dtype=pl.Int32),
        pl.Series("group_place", (np.cumsum(is_first) - 1)[first], dtype=pl.Int32),
        slot_sharing_group_name=pl.coalesce("decided", "slot_sharing_group_name"),
    ).drop("decided", "flinks")


def _task_slots(task_slots: pl.DataFrame, answer: Answer) -> pl.DataFrame:
    numbered = _numbered(answer)
    lists = (
        numbered.sort(TOPOLOGY, "vertex", "subtask")
        .group_by(TOPOLOGY, "vertex", maintain_order=True)
        .agg(pl.col("slot").alias("decided"))
    )
    joined = task_slots.join(lists, on=[TOPOLOGY, "vertex"], how="left", maintain_order="left")
    slots = pl.coalesce("decided", "slots").cast(task_slots.schema["slots"])
    return joined.with_columns(slots.alias("slots")).select(task_slots.columns)


def _required_slots(
    required_slots: pl.DataFrame, answer: Answer, ordered_vertices: pl.DataFrame
) -> pl.DataFrame:
    vertex_groups = ordered_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group")
    counted = (
        _numbered(answer)
        .join(vertex_groups, on=[TOPOLOGY, "vertex"])
        .group_by(TOPOLOGY, "slot_sharing_group")
        .agg(pl.col("slot").n_unique().cast(pl.Int32).alias("decided"))
    )
    joined = required_slots.join(
        counted, on=[TOPOLOGY, "slot_sharing_group"], how="left", maintain_order="left"
    )
    return joined.with_columns(slots=pl.coalesce("decided", "slots")).drop("decided")


def _numbered(answer: Answer) -> pl.DataFrame:
    """Number the slots of a topology from 0, in the order of their given names."""
    slot = pl.col("execution_slot_sharing_group").rank("dense").over(TOPOLOGY).cast(pl.Int32) - 1
    return answer.with_columns(slot=slot)


def _look_up_decision(rows: pl.DataFrame, answer: Answer, decision: Decision) -> pl.Series:
    """Return the decision about each row; null without one."""
    answer_form = ANSWERS[decision]
    key = [TOPOLOGY, *answer_form.keys]
    joined = rows.select(key).join(answer, on=key, how="left", maintain_order="left")
    return joined[answer_form.value]


_FOLLOWED: dict[Decision, list[tuple[str, Follow, tuple[str, ...]]]] = {
    Decision.PARALLELISM: [("stream_nodes", _parallelism, ())],
    Decision.PARTITIONERS: [("edges_with_ends", _partitioners, ())],
    Decision.CHAINING: [("marked_edges", _chaining, ())],
    Decision.SLOT_SHARING_GROUPS: [("grouped_vertices", _slot_sharing_groups, ())],
    Decision.EXECUTION_SLOT_SHARING_GROUPS: [
        ("task_slots", _task_slots, ()),
        ("required_slots", _required_slots, ("ordered_vertices",)),
    ],
}


def implementations(options: PlanOptions) -> dict[str, Derive]:
    """Map the table of each pass to its function, with options and with the decisions of custom planners."""
    configured = {entry.produces: entry.configured(options) for entry in PASSES}
    return _with_decisions(configured, options.decided)


def steps(options: PlanOptions) -> list[tuple[str, Derive]]:
    """Return (table, function) for all layers up to `options.until`, in the order of PASSES."""
    implemented = implementations(options)
    return [(entry.produces, implemented[entry.produces]) for entry in passes_until(options.until)]


def inputs_of(derive: Derive) -> tuple[str, ...]:
    """Return the tables that a step reads."""
    if isinstance(derive, DecidedPass):
        return tuple(dict.fromkeys((*derive.takes, *derive.reads)))
    return parameters(derive.func if isinstance(derive, partial) else derive)
