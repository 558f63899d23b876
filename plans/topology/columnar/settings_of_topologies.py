"""Options and job settings of topologies whose values and transformations are right."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.plans.errors import TopologyError
from penstock.plans.frames.counts import runs
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.frames.polars_groups import ints
from penstock.plans.tables import JOB_SETTINGS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.canonical_texts import config_text
from penstock.plans.topology.job_settings import may_run_as_batch, settings_or_errors
from penstock.plans.topology.parse_lines import SETTINGS, as_arrow
from penstock.plans.topology.reads_unbounded_source import reads_unbounded_source
from penstock.plans.vocabulary import Kind

Refusals = dict[int, tuple[str, list[TopologyError]]]
"""Place among the topologies to stage and errors."""

_READ = ("config", "parallelism", "max_parallelism", "chaining")
_COMBINATION = ["config_text", *_READ[1:], "unbounded"]
_ROWS_AT_ONCE = 65_536


def settings_of_topologies(
    topologies: pl.DataFrame, transformations: pl.DataFrame
) -> tuple[pl.DataFrame, Refusals]:
    """JOB_SETTINGS of `topologies`, in their order, and why some are refused.

    As joins.settings_of_topologies; but each combination of what settings follow from is read once,
    since a fleet has few. A name gives nothing but the job's name where the configuration has none.
    """
    config = config_text().list.join(",").alias("config_text")
    jobs = topologies.select(TOPOLOGY, "name", *_READ, config)
    unbounded = _with_unbounded_source(jobs, transformations)
    jobs = jobs.with_columns(pl.col(TOPOLOGY).is_in(unbounded.implode()).alias("unbounded"))
    distinct = jobs.unique(_COMBINATION, keep="first", maintain_order=True).drop(TOPOLOGY, "name")
    settings: list[dict[str, Any]] = []
    places: list[int | None] = []
    refused: dict[int, tuple[str, list[TopologyError]]] = {}
    for row in distinct.drop("config_text").to_arrow(compat_level=pl.CompatLevel.oldest()).to_pylist():
        stage, errors, derived = settings_or_errors({**row, "name": ""}, row["unbounded"])
        places.append(None if derived is None else len(settings))
        if derived is not None:
            settings.append(as_arrow(derived))
        elif stage is not None:
            refused[len(places) - 1] = (stage, errors)
    numbered = distinct.select(_COMBINATION).with_columns(place=pl.Series(places, dtype=pl.Int64))
    job_combinations = jobs.select(_COMBINATION).join(
        numbered.with_row_index("combination"),
        on=_COMBINATION,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    taken = job_combinations["place"].is_not_null()
    accepted = jobs.select(TOPOLOGY, "name").filter(taken)
    setting_rows = from_arrow(pa.Table.from_struct_array(pa.chunked_array([pa.array(settings, SETTINGS)])))
    named = pl.when(pl.col("job_name") == "").then("name").otherwise("job_name").alias("job_name")
    of_jobs = accepted.hstack(setting_rows[job_combinations["place"].drop_nulls()]).with_columns(named)
    others = job_combinations.select("combination").with_row_index("place").filter(~taken)
    return of_jobs.select(JOB_SETTINGS.names), {p: refused[combination] for p, combination in others.rows()}


def _with_unbounded_source(jobs: pl.DataFrame, transformations: pl.DataFrame) -> pl.Series:
    """The topologies that may run as batch jobs and have an operator that reads an unbounded source."""
    configs = jobs.select("config_text", "config").unique("config_text")
    texts = []
    for row in configs.to_arrow(compat_level=pl.CompatLevel.oldest()).to_pylist():
        if may_run_as_batch(dict(row["config"])):
            texts.append(row["config_text"])
    batch = jobs.filter(pl.col("config_text").is_in(texts)).select(TOPOLOGY)
    if batch.is_empty():
        return batch.to_series()
    shape = transformations.select(TOPOLOGY, "id", "kind", "inputs")
    legacy = shape.filter(pl.col("kind") == str(Kind.LEGACY_SOURCE)).join(batch, on=TOPOLOGY, how="semi")
    rows = shape.join(legacy, on=TOPOLOGY, how="semi").sort(TOPOLOGY, "id")
    starts = runs(ints(rows, TOPOLOGY)).starts.tolist()
    unbounded_topologies = [
        rows[TOPOLOGY][start]
        for start, end in pairwise([*starts, len(rows)])
        if reads_unbounded_source(_graph(rows.slice(start, end - start)))
    ]
    return pl.Series(TOPOLOGY, unbounded_topologies, pl.Int64)


def _graph(rows: pl.DataFrame) -> Iterator[tuple[str, list[int]]]:
    for part in rows.iter_slices(_ROWS_AT_ONCE):
        yield from zip(part["kind"].to_list(), part["inputs"].to_list(), strict=True)
