"""The walk over numbers finds the topologies that the function over (kind, inputs) finds."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plans.topology.joins.read_topology_tables import topologies_that_read
from penstock.plans.topology.validate_transformations import reads_unbounded_source
from penstock.plans.vocabulary import SOURCE_KINDS, VIRTUAL_KINDS, Kind

KINDS = ["source", "legacy_source", "union", "partition", "side_output", "operator", "sink"]


@st.composite
def graphs(draw):
    """(kind, inputs) with ids 1..n; virtual transformations more often than others."""
    rows = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        kind = draw(st.sampled_from(KINDS + ["union", "partition"] * 2)) if number > 1 else KINDS[1]
        before = st.lists(st.integers(1, number - 1), min_size=1, max_size=3) if number > 1 else st.just([])
        rows.append((kind, [] if kind in SOURCE_KINDS else draw(before)))
    return rows


def numbers(topologies):
    """The walk's rows of topologies, numbered from 0."""
    return [
        (topology, number, kind == Kind.LEGACY_SOURCE, kind in VIRTUAL_KINDS, inputs)
        for topology, rows in enumerate(topologies)
        for number, (kind, inputs) in enumerate(rows, 1)
        if kind not in SOURCE_KINDS or kind == Kind.LEGACY_SOURCE
    ]


def batches(rows, size):
    types = [pa.int64(), pa.int32(), pa.bool_(), pa.bool_(), pa.list_(pa.int32())]
    names = ["topology_id", "id", "is_source", "is_virtual", "inputs"]
    whole = pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)], names
    )
    yield whole.slice(0, 0)
    for start in range(0, len(rows), size):
        yield whole.slice(start, size)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(graphs(), min_size=1, max_size=5), st.integers(1, 20))
def test_the_walk_finds_what_the_function_finds(topologies, size):
    found = topologies_that_read(batches(numbers(topologies), size))
    assert [number for batch in found for number in batch.column(0).to_pylist()] == [
        number for number, rows in enumerate(topologies) if reads_unbounded_source(rows)
    ]
