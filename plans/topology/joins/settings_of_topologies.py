"""Options and job settings of topologies that came in as a table, in Spark's Python workers."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.plans.errors import TopologyError
from penstock.plans.tables.column_types import LONG, STR
from penstock.plans.topology.parse_lines import as_arrow, shown
from penstock.plans.topology.parsed_batches import ERRORS, SETTINGS
from penstock.plans.topology.settings_of_topologies import settings_or_errors

SETTLED = pa.schema([("topology_id", LONG), ("error_stage", STR), ("errors", ERRORS), ("settings", SETTINGS)])


def settings_of_topologies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: SETTLED, one row per topology, with either settings or errors.

    Input columns: topology_id, name, parallelism, max_parallelism, chaining, config, reads_unbounded (whether
    an operator reads an unbounded source; false where the job type does not depend on that).
    """
    for batch in batches:
        stages, errors, settings = [], [], []
        for row in batch.to_pylist():
            stage, found, derived = settings_or_errors(row, row["reads_unbounded"])
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


def _or_none(errors: list[TopologyError]) -> list[dict[str, str]] | None:
    return [shown(e) for e in errors] or None
