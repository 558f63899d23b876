"""Options and job settings of topologies that came in as a table, in Spark's Python workers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from plans.errors import TopologyError
from plans.tables.column_types import LONG, STR
from plans.topology.job_settings import read_job_settings
from plans.topology.parse_lines import ERRORS, SETTINGS, as_arrow, shown
from plans.topology.reads_unbounded_source import reads_unbounded_source
from plans.topology.setting_refusals import FlinkRefusal

SETTLED = pa.schema([("topology_id", LONG), ("error_stage", STR), ("errors", ERRORS), ("settings", SETTINGS)])


def settings_of_topologies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: SETTLED, one row a topology with either settings or errors.

    Input columns: topology_id, name, parallelism, max_parallelism, chaining, config, graph (kind and inputs
    of its transformations in id order where the job type hangs on its sources' boundedness, else empty: null
    lists take Arrow's Java writer long).
    """
    for batch in batches:
        stages, errors, settings = [], [], []
        for row in batch.to_pylist():
            unbounded = reads_unbounded_source((t["kind"], t["inputs"]) for t in row["graph"])
            stage, found, derived = settings_or_errors(row, unbounded)
            stages.append(stage)
            errors.append(_or_none(found))
            settings.append(None if derived is None else as_arrow(derived))
        yield pa.RecordBatch.from_pydict(
            {
                "topology_id": batch.column("topology_id"),
                "error_stage": pa.array(stages, pa.string()),
                "errors": pa.array(errors, ERRORS),
                "settings": pa.array(settings, SETTINGS),
            }
        )


def settings_or_errors(
    topology: Mapping[str, Any], reads_unbounded: bool
) -> tuple[str | None, list[TopologyError], dict[str, Any] | None]:
    """Stage and errors of a TOPOLOGIES row with right values, or its job settings."""
    try:
        derived = read_job_settings(
            dict(topology["config"]),
            topology_name=topology["name"],
            parallelism=topology["parallelism"],
            max_parallelism=topology["max_parallelism"],
            chaining=topology["chaining"],
            transformations_have_unbounded_source=reads_unbounded,
        )
    except FlinkRefusal as refusal:
        return refusal.error_stage, refusal.as_topology_errors(), None
    return None, [], derived


def _or_none(errors: list[TopologyError]) -> list[dict[str, str]] | None:
    return [shown(e) for e in errors] or None
