"""One cell of a sweep: read its topologies, plan them, measure the plans."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.measure.bench.measure_quality import plan_and_measure
from penstock.engine.measure.bench.suites import CAPTURED as CAPTURED_FILE
from penstock.engine.measure.bench.suites import WORKLOADS as WORKLOADS_FILE
from penstock.engine.measure.sweep.sweep_spec import CAPTURED, PARAMETERS, WORKLOADS
from penstock.engine.planning.custom_planners import question
from penstock.engine.planning.plan_in_process import ReadTopologies, read_in_process
from penstock.engine.planning.plan_options import plan_options
from penstock.plans.generate.by_spec.draw_by_spec import draw_by_spec, no_counts
from penstock.plans.generate.by_spec.fleet_spec import read_fleet_spec
from penstock.plans.generate.fleet import Spec
from penstock.plans.generate.shapes import find_shape
from penstock.plans.generate.topology_lines import fleet_tables
from penstock.plans.metrics.exchange_costs import CONSTANTS, read_constants
from penstock.plans.metrics.plan_metrics import fleet_metrics
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.job_defaults import JobDefaults

Result = dict[str, Any]
"""Counts, seconds and `metrics` of a cell: mean and 95th percentile over its topologies, by metric.
`quality`: the metrics of each topology, as quality_text writes them."""


class CellRequest(NamedTuple):
    """A cell as it is sent to a process, as JSON; `defines` are options that all cells have."""

    source: Mapping[str, Any]
    options: Mapping[str, str]
    costs: str | None
    planner: str
    config_dir: str | None
    defines: Mapping[str, str]
    time_limit: float
    constants: str | None = None


class CellMeter:
    """Measures cells, and keeps the topologies that it has read last for the next cell.

    A class, since what is kept lives as long as a process that measures.
    """

    def __init__(self) -> None:
        self._of: tuple[str, JobDefaults] | None = None
        self._read: ReadTopologies | None = None

    def measure(self, request: CellRequest) -> Result:
        """The result of a cell. Raises what reading and planning raise."""
        defines = {**request.defines, **request.options}
        configuration = find_configuration(request.config_dir, defines)
        choices = plan_options(cluster=configuration.cluster).choices
        read, seconds = self._topologies(request.source, configuration.job_defaults)
        terms = CONSTANTS if request.constants is None else read_constants(Path(request.constants))
        asked = question(request.costs, read.frames["topologies"], request.time_limit, constants=terms)
        measured = plan_and_measure(read, request.planner, asked, choices)
        metrics = {
            row["metric"]: [row["mean"], row["p95"]]
            for row in fleet_metrics(measured.plans).iter_rows(named=True)
        }
        counts = {"inputs": read.inputs, "read_seconds": seconds, **measured.summary}
        return {**counts, "metrics": metrics, "quality": quality_text(measured.plans)}

    def _topologies(
        self, source: Mapping[str, Any], defaults: JobDefaults
    ) -> tuple[ReadTopologies, float | None]:
        """The topologies of a source, and the seconds that reading took; None if they were read before."""
        key = (json.dumps(dict(source), sort_keys=True), defaults)
        if self._of == key and self._read is not None:
            return self._read, None
        self._of, self._read = None, None  # not both at once
        self._read = read_in_process(_given(source), lambda stage: None, job_defaults=defaults)
        self._of = key
        return self._read, self._read.seconds


def quality_text(plans: pl.DataFrame) -> str:
    """plan_metrics as text for JSON: a compressed Arrow stream in Base64."""
    numbers = [name for name in plans.columns if plans.schema[name].is_numeric() and name != TOPOLOGY]
    rows = plans.select(pl.col("name").alias("topology"), pl.col(numbers).cast(pl.Float64))
    sink = pa.BufferOutputStream()
    table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def _given(source: Mapping[str, Any]) -> Any:
    """The topologies that a source means, in a form that planning reads."""
    if "file" in source:
        return source["file"]
    if "spec" in source:
        spec, counts = read_fleet_spec(source["spec"]), no_counts()
        return [draw_by_spec(spec, source["seed"], number, counts) for number in range(source["topologies"])]
    if source["shape"] == CAPTURED:
        return str(CAPTURED_FILE)
    if source["shape"] == WORKLOADS:
        lines = [json.loads(line) for line in WORKLOADS_FILE.read_text(encoding="utf-8").splitlines()]
        at = {key: source[key] for key in ("parallelism",) if key in source}
        return [{**line, **at} for line in lines]
    shape = find_shape(source["shape"])
    fleet = shape.fleet(Spec(**{key: source[key] for key in PARAMETERS if key in source}))
    return fleet_tables(fleet)
