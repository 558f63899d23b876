"""Frames of every library: streams that can be read once, columns in rarer forms of Arrow, NumPy's values."""

import multiprocessing
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.plans.errors import InputError, SchemaError

TRANSFORMATIONS = [
    {"id": 1, "kind": "source", "name": "s"},
    {"id": 2, "kind": "sink", "name": "k", "inputs": [1]},
]
ONE = pa.Table.from_pylist([{"name": "a", "transformations": TRANSFORMATIONS}])
TOPOLOGIES = pa.table({"name": ["a"]})
ROWS = pa.table(
    {
        "topology": ["a", "a"],
        "id": pa.array([1, 2], pa.int32()),
        "kind": ["source", "sink"],
        "name": ["s", "k"],
        "inputs": pa.array([[], [1]], pa.list_(pa.int32())),
    }
)


class Stream:
    """Hands out Arrow's C stream once, and has nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.left = [table]

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.left.pop().to_reader().__arrow_c_stream__(schema)


def planned(*given: Any) -> tuple[int, int]:
    plan = penstock.plan(given[0] if len(given) == 1 else given)
    return plan.planned, plan.rejected


@pytest.mark.parametrize("stream", [pa.Table.to_reader, Stream], ids=["reader", "stream"])
def test_a_stream_that_can_be_read_once_is_read_once(stream):
    assert planned(stream(ONE)) == (1, 0)
    assert planned(stream(TOPOLOGIES), stream(ROWS)) == (1, 0)
    assert planned(iter([{"name": "a", "transformations": TRANSFORMATIONS}])) == (1, 0)


def test_a_stream_that_has_been_read_is_told():
    reader = ONE.to_reader()
    reader.read_all()
    with pytest.raises(InputError, match=r"an empty stream.*\n.*can be read once"):
        penstock.plan(reader)


INPUTS = {
    "list view": pa.list_view(pa.int32()),
    "large list view": pa.large_list_view(pa.int64()),
    "large list": pa.large_list(pa.int32()),
    "fixed size": pa.list_(pa.int32(), 1),
}


@pytest.mark.parametrize("kind", INPUTS.values(), ids=list(INPUTS))
def test_lists_in_any_form_are_read(kind):
    values = [None if pa.types.is_fixed_size_list(kind) else [], [1]]
    place = ROWS.column_names.index("inputs")
    assert planned(TOPOLOGIES, ROWS.set_column(place, "inputs", pa.array(values, kind))) == (1, 0)


def test_rows_in_list_views_are_read():
    rows = pa.array([TRANSFORMATIONS], pa.list_view(ONE.schema.field("transformations").type.value_type))
    assert planned(pa.table({"name": ["a"], "transformations": rows})) == (1, 0)


def test_lists_without_values_are_read():
    row = pa.table({"topology": ["a"], "id": [1], "kind": ["source"], "name": ["s"], "inputs": [[]]})
    assert planned(TOPOLOGIES, row) == (1, 0)


def twice(table: pa.Table, column: str) -> pa.Table:
    return pa.table([*table.columns, table[column]], [*table.column_names, column])


@pytest.mark.parametrize(
    "given",
    [
        (twice(ONE, "name"),),
        (twice(TOPOLOGIES, "name"), ROWS),
        (TOPOLOGIES, twice(ROWS, "kind")),
        (pd.DataFrame([["a", "b", TRANSFORMATIONS]], columns=["name", "name", "transformations"]),),
    ],
    ids=["rows", "topologies", "transformations", "pandas"],
)
def test_two_columns_of_one_name_are_told(given):
    with pytest.raises(SchemaError, match=r"column names must be unique, got (name|kind) more than once"):
        planned(*given)


def test_values_of_numpy_are_what_they_hold():
    topology = {
        "name": np.str_("a"),
        "parallelism": np.int64(3),
        "chaining": np.bool_(True),
        "transformations": [
            {"id": np.int32(1), "kind": "source", "name": "s", "buffer_timeout": np.uint8(5)},
            {"id": np.int16(2), "kind": "sink", "name": "k", "inputs": np.array([1])},
        ],
    }
    plan = penstock.plan(topology)
    assert plan.tables["rejected"].to_pylist() == []
    assert pl.DataFrame(plan.tables["stream_nodes"])["parallelism"].to_list() == [3, 3]


def test_fractions_of_numpy_are_no_whole_numbers():
    plan = penstock.plan({"name": "a", "parallelism": np.float64(2.5), "transformations": TRANSFORMATIONS})
    (rejected,) = plan.tables["rejected"].to_pylist()
    assert (rejected["error"], "2.5" in rejected["message"]) == ("WrongType", True)


def plan_in_child(_: int) -> str:
    try:
        return repr(penstock.plan(ONE))
    except penstock.PenstockError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_forked_process_says_that_it_cannot_plan():
    """polars' threads are not in it: it would wait for them for ever."""
    penstock.plan(ONE)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        (said,) = pool.map_async(plan_in_child, [0]).get(60)
    assert "was forked from one that has planned" in said
