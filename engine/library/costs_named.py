"""Costs of operators as library calls take them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.engine.library.check_arguments import path
from penstock.engine.library.given_topologies import is_frame, is_spark_frame
from penstock.engine.machine.temporary_folders import short_lived_folder


@contextmanager
def costs_named(costs: Any) -> Iterator[str | None]:
    """Costs as --costs takes them; those of a frame are in a file for as long as the context."""
    if costs is None or isinstance(costs, str):
        yield costs
    elif is_frame(costs):
        from pyarrow import parquet

        from penstock.engine.library.given_topologies import frame_as_arrow

        if is_spark_frame(costs):
            from penstock.engine.run.runtime.spark_application import in_running_session

            with in_running_session(costs.sparkSession, "costs"):
                table = costs.toArrow()
        else:
            table = frame_as_arrow(costs)
        with short_lived_folder("costs") as folder:
            file = Path(folder) / "costs.parquet"
            parquet.write_table(table, file)
            yield str(file)
    else:
        yield path("costs", costs)
