"""The tables of a plan as they are handed over to what stores them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pyspark.sql import DataFrame

from penstock.plans.frames.packed_blocks import PackedTables
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.layers import LAYER_TABLES, layers_until
from penstock.plans.passes import GIVEN
from penstock.plans.planners.expand_in_workers import Expansion, packed_expansions
from penstock.plans.planners.joins_passes import Expanded, HandOver, JoinStep, View
from penstock.plans.planners.run_steps import AnyStep, with_views
from penstock.plans.tables import TABLES
from penstock.plans.vocabulary import Layer


class Finished(Protocol):
    """Receives the tables of a plan as soon as no pass of a layer can refuse their topologies."""

    def expect(self, rows: int) -> None:
        """About how many rows a table has; said before the first comes."""

    def add(self, tables: Mapping[str, DataFrame], packed: Sequence[PackedTables]) -> None:
        """Take the rows of `tables` (keys of plans.tables.TABLES); workers derive some from `packed`.

        No table comes twice. Called from several threads at once.
        """

    def clear(self) -> None:
        """Drop the rows of all tables that have come: Flink refuses a topology of theirs."""


def with_hand_overs(chosen: Sequence[tuple[str, JoinStep]], until: Layer) -> list[tuple[str, AnyStep]]:
    """`chosen` (see plans.joins.passes.steps), and a HandOver for each layer that can refuse topologies.

    The HandOver of a layer has the tables that are complete once its passes and those of earlier layers have
    run. Tables that need later passes are left to the caller.
    """
    places = {name: place for place, (name, _) in enumerate(chosen)}
    views = {name: step for name, step in chosen if isinstance(step, View)}
    layers = layers_until(until)
    open_tables = {table: source for layer in layers for table, source in LAYER_TABLES[layer].items()}
    refusals = tuple(name for layer in layers if (name := f"{layer}_refusals") in places)
    handed_over: dict[int, tuple[str, HandOver]] = {}
    for known, name in enumerate(refusals, 1):
        computed = {*GIVEN, *(other for other in places if places[other] <= places[name])}
        ready_tables = {
            t: s for t, s in open_tables.items() if with_views([s], views) - views.keys() <= computed
        }
        open_tables = {table: source for table, source in open_tables.items() if table not in ready_tables}
        last = max(places.get(source, 0) for source in (name, *ready_tables.values()))
        handed_over[last] = (
            f"{name.removesuffix('_refusals')}_tables",
            HandOver(ready_tables, refusals[:known]),
        )
    in_order: list[tuple[str, AnyStep]] = []
    for place, step in enumerate(chosen):
        in_order += [step, handed_over[place]] if place in handed_over else [step]
    return in_order


def tables_of_plan(
    wanted: Mapping[str, str],
    tables: Mapping[str, DataFrame],
    expanded: Mapping[str, Expanded],
    refused: DataFrame | None,
) -> tuple[dict[str, DataFrame], tuple[PackedTables, ...]]:
    """The tables `wanted` (name in plans.tables.TABLES to the table of passes) without `refused` topologies,
    and what workers can make several of them of at once.

    `tables` are those of passes by name, `expanded` the views among them that have several rows for each of
    another's. `refused` has the column topology_id; None: nothing is refused.
    """

    def only_planned(rows: DataFrame) -> DataFrame:
        return rows if refused is None else join_local(rows, refused, {}, "left_anti")

    plan_tables: dict[str, DataFrame] = {}
    by_source: dict[str, tuple[DataFrame, list[Expansion]]] = {}
    for table, produced in wanted.items():
        step = expanded.get(produced)
        if step is None:
            rows = only_planned(tables[produced])
        else:
            # Refused topologies are removed before their rows multiply.
            (few,) = step.reads
            before, expansions = by_source.setdefault(few, (only_planned(tables[few]), []))
            expansions.append(step.expansion)
            rows = step.derive(**{few: before})
        plan_tables[table] = rows.select(*TABLES[table].names)
    return plan_tables, tuple(packed_expansions(*of_rows) for of_rows in by_source.values())
