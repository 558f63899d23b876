"""Evaluate changes of decisions about one job, over arrays if possible, else by planning the whole job."""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from penstock.engine.planning.changed_metrics import (
    Change,
    ChangedMetrics,
    Costs,
    Decided,
    Frames,
    checked_change,
)
from penstock.engine.planning.find_custom_planners import find_custom_planners
from penstock.engine.planning.plan_by_custom_planners import plan_by_custom_planners
from penstock.plans.custom_planners.decisions import ANSWERS, Decision, decides
from penstock.plans.errors import BrokenInvariantError
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.job_by_arrays import JobByArrays, job_by_arrays
from penstock.plans.metrics.plan_metrics import METRICS, plan_metrics
from penstock.plans.metrics.rates_and_loads import Constants
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import TopologyForm


class Setting(NamedTuple):
    """Options, costs and constants for planning and measuring."""

    options: PlanOptions
    costs: Costs
    constants: Constants


class ChangedJob:
    """One job of a plan, whose decisions change. Threads may share it; evaluations run one by one."""

    def __init__(self, tables: Frames, setting: Setting) -> None:
        """Take `tables`, Flink's plan of this job with all layers."""
        self._tables, self._setting = tables, setting
        self.name: str = tables["topologies"]["name"][0]
        self._arrays = self._by_arrays()
        self._lock = Lock()

    def after(self, before: Change, change: Change) -> ChangedMetrics:
        """Return the metrics under the decisions of `before`, which were evaluated, followed by `change`."""
        wanted = checked_change(change)
        decided = dict(cast(Decided, before))
        for name, values in wanted.items():
            decided[name] = {**decided.get(name, {}), **values}
        if self._arrays is not None and decided.keys() <= _ARRAYS:
            with self._lock:
                metrics = self._arrays.evaluate(decided, wanted)
            if metrics is not None:
                return self._metrics(dict(zip(METRICS, metrics, strict=True)), decided)
        row = self._planned(decided, wanted)
        return self._metrics({name: row[name] for name in METRICS}, decided)

    def _metrics(self, row: dict[str, Any], decided: Decided) -> ChangedMetrics:
        return ChangedMetrics(**row, change=cast(Change, decided), evaluate=self.after)

    def _by_arrays(self) -> JobByArrays | None:
        def plan_apart() -> Frames | None:
            edges = self._tables["stream_edges"]
            keys = edges.select("target", "in_index").rows()
            planned = self._plan({"chaining": dict.fromkeys(keys, False)}, {})
            return None if planned["topologies"].is_empty() else planned

        return job_by_arrays(self._tables, plan_apart, self._setting.options, *self._setting[1:])

    def _plan(self, decided: Decided, new: Decided) -> Frames:
        """Return the plan under decisions; decisions about vertices that no longer exist are ignored."""
        answers = [
            _answers(Decision(name), values, new.get(name, {}), self._tables)
            for name, values in decided.items()
        ]
        planners = find_custom_planners(answers) if answers else []
        planned = plan_by_custom_planners(self._topology(), planners, self._setting.options)
        return {name: from_arrow(rows) for name, rows in planned.tables.items()}

    def _topology(self) -> TopologyTables:
        """The tables of the topology layer."""
        names = ("topologies", "transformations", "job_settings")
        frames = {name: self._tables[name] for name in names} | {"rejected": empty("rejected")}
        is_given = self._tables["topologies"]["form"][0] == TopologyForm.STREAM_GRAPH.value
        for name in ("stream_nodes", "stream_edges"):
            frames[name] = self._tables[name] if is_given else empty(name)
        return TopologyTables.of(frames)

    def _planned(self, decided: Decided, new: Decided) -> dict[str, Any]:
        tables = self._plan(decided, new)
        if tables["topologies"].is_empty():
            (error,) = tables["rejected"]["errors"].to_list()
            raise BrokenInvariantError(
                f"{self.name}: "
                + "\n".join(
                    f"{violation['error']}: {violation['location']}: got "
                    f"{violation['found']}; must be {violation['allowed']}"
                    for violation in error
                )
                if error
                else f"{self.name}: {tables['rejected']['message'][0]}"
            )
        options, costs, constants = self._setting
        metrics = plan_metrics(
            tables,
            costs(tables["stream_nodes"], tables["stream_edges"]),
            options.task_manager,
            options.network,
            constants,
        )
        return metrics.plans.row(0, named=True)


_ARRAYS = {Decision.CHAINING.value, Decision.SLOT_SHARING_GROUPS.value}


def _answers(
    decision: Decision, values: Mapping[Any, Any], new: Mapping[Any, Any], tables: Frames
) -> Callable[..., Any]:
    """Return a planner that answers `values`, those about vertices only if the vertex exists or is `new`."""
    answer_form = ANSWERS[decision]
    topology = tables["topologies"][TOPOLOGY][0]
    keys = [key if isinstance(key, tuple) else (key,) for key in values]
    rows = pl.DataFrame(
        {
            TOPOLOGY: np.full(len(keys), topology, np.int64),
            **{
                name: pl.Series([key[place] for key in keys], dtype=pl.Int32)
                for place, name in enumerate(answer_form.keys)
            },
            answer_form.value: pl.Series(
                [str(value) if answer_form.kind == pl.String() else value for value in values.values()],
                dtype=answer_form.kind,
            ),
        }
    )
    if decision is not Decision.SLOT_SHARING_GROUPS:

        def answer() -> pl.DataFrame:
            return rows

        return decides(decision)(answer)
    new_vertices = pl.Series(list(new), dtype=pl.Int32)

    def answer_of_vertices(job_vertices: pl.DataFrame) -> pl.DataFrame:
        known = pl.concat([job_vertices["vertex"], new_vertices])
        return rows.filter(pl.col("vertex").is_in(known.implode()))

    return decides(decision)(answer_of_vertices)
