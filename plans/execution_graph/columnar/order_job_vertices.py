"""Numbers the job vertices of all topologies: all tables of tasks are derived from them."""

import numpy as np
import polars as pl

from plans.columnar.frames import rename
from plans.columnar.look_up import look_up
from plans.execution_graph.job_graph_arrays import NONE
from plans.rows_in_order import rows_in_order
from plans.runs import runs
from plans.tables.column_types import TOPOLOGY


def order_job_vertices(job_vertices: pl.DataFrame, execution_job_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex), by topology_id and then in topological order.

    In: job_vertices (see number_co_location_groups), execution_job_vertices. Out: parallelism (effective),
    slot_sharing_group, co_location_group (NONE where there is none), pipelined_region. Other tables refer to
    these rows by their places.
    """
    topologies = runs(job_vertices[TOPOLOGY].to_numpy())
    distinct = np.unique(job_vertices[TOPOLOGY].to_numpy()[topologies.starts], return_inverse=True)[1]
    rows = rows_in_order(distinct[topologies.of_row], job_vertices["topological_order"].to_numpy())
    ordered = job_vertices.select(
        pl.col(TOPOLOGY, "vertex", "slot_sharing_group", "co_location_group", "pipelined_region").gather(
            pl.Series(values=rows.astype(np.uint32))
        )
    ).with_columns(pl.col("co_location_group").fill_null(NONE))
    return look_up(
        ordered,
        rename(execution_job_vertices, of_vertex="vertex", parallelism="parallelism"),
        {"vertex": "of_vertex"},
    )
