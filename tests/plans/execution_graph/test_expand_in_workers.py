"""Rows of tasks, made some at a time."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.layers import Choices
from penstock.plans.planners import joins_passes as expand_in_workers
from penstock.plans.planners.joins_passes import Expanded, implementations, packed_expansions
from tests.plans.planners.table_contents import rows_of

pytestmark = pytest.mark.usefixtures("own_environment")


@pytest.fixture
def own_environment(monkeypatch):
    """What workers set in their environment is not left in this one."""
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")


EXPANSIONS = {
    name: step.expansion
    for name, step in implementations(Choices()).items()
    if isinstance(step, Expanded) and name not in ("execution_vertices", "execution_slot_sharing_groups")
}


def placed_edges(count: int) -> pa.Table:
    """Job edges between vertices of 1 to 9 subtasks, the first two of one, one of them of many."""
    drawn = np.random.default_rng(3)
    ends = [drawn.integers(1, 10, count).astype(np.int32) for _ in range(2)]
    ends[0][0] = ends[1][0] = 1
    ends[1][count // 2] = 1_000
    numbers = np.arange(count, dtype=np.int32)
    return pa.table(
        {
            "topology_id": pa.array(numbers.astype(np.int64)),
            "source_vertex": numbers + 1,
            "target_vertex": numbers + 2,
            "input_index": numbers % 3,
            "output_index": numbers % 2,
            "consumer_index": numbers % 2,
            "result_partition_type": pa.array(["PIPELINED_BOUNDED", "BLOCKING"] * (count // 2)),
            "all_to_all": pa.array(drawn.integers(0, 2, count).astype(bool)),
            "producers": ends[0],
            "consumers": ends[1],
        }
    )


@pytest.mark.parametrize("at_a_time", [1, 7, 100, 100_000])
def test_rows_do_not_depend_on_how_many_are_made_at_a_time(monkeypatch, at_a_time):
    monkeypatch.setattr(expand_in_workers, "ROWS_AT_A_TIME", at_a_time)
    edges = placed_edges(60)
    packed = packed_expansions(None, EXPANSIONS.values())  # type: ignore[arg-type]  # its rows are not read
    assert packed.tables == set(EXPANSIONS)
    found: dict[str, list[pa.Table]] = {}
    for table, rows in packed.parts(edges.to_batches(max_chunksize=11), packed.tables):
        assert len(rows) <= at_a_time + 1_000
        found.setdefault(table, []).append(rows)
    whole = pl.from_arrow(edges)
    assert isinstance(whole, pl.DataFrame)
    for table, expansion in EXPANSIONS.items():
        assert rows_of(pa.concat_tables(found[table])) == rows_of(to_arrow(expansion.expand(whole), table))


def test_tables_that_are_not_asked_for_are_not_made():
    packed = packed_expansions(None, EXPANSIONS.values())  # type: ignore[arg-type]  # its rows are not read
    tables = {table for table, _ in packed.parts(placed_edges(4).to_batches(), {"execution_edges"})}
    assert tables == {"execution_edges"}
