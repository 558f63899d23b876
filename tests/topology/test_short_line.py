"""Errors of a large topology are found in a short line, where right rows say as little as they can."""

import sys
from unittest.mock import patch

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plans.tables import TRANSFORMATIONS
from plans.topology import validate_transformations as validation
from plans.topology.columnar import read_topology_tables as columnar
from plans.topology.columnar.given_columns import given_columns as columns_of
from plans.topology.columnar.normalized_tables import normalized_transformations
from plans.topology.columnar.short_line import short_line
from plans.topology.columnar.topology_id import topology_id
from tests.columnar.table_contents import frame_contents

KINDS = ["source", "one_input", "two_input", "union", "partition", "sink", "no such kind", None]


@st.composite
def transformations(draw):
    """Rows of one topology; ids are mostly 1..n, inputs mostly earlier ones."""
    size = draw(st.integers(1, 8))
    ids = st.sampled_from([*range(1, size + 2), None])
    counted = draw(st.booleans())
    rows = []
    for number in range(1, size + 1):
        sources = number == 1 or draw(st.booleans())
        kind = "source" if sources else draw(st.sampled_from(KINDS))
        earlier = st.integers(1, max(number - 1, 1))
        anywhere = st.integers(-1, size + 2)
        inputs = [] if sources else draw(st.lists(st.one_of(earlier, earlier, anywhere), max_size=3))
        rows.append(
            {
                "topology_id": topology_id("job"),
                "id": number if counted else draw(ids),
                "kind": kind,
                "inputs": inputs,
                "parallelism": draw(st.sampled_from([None, None, None, 2, -3])),
                "uid_hash": draw(st.sampled_from([None, None, None, "ab" * 16, "no hash"])),
                "name": draw(st.sampled_from(["", "n"])),
                "partitioner": "hash" if kind == "partition" else None,
            }
        )
    return draw(st.permutations(rows))


def given_columns(rows):
    kinds = {name: TRANSFORMATIONS.field(name).type for name in rows[0]}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def read(rows, name="job", large=sys.maxsize):
    with patch.object(columnar, "_LARGE", large):
        return columnar.read_topology_tables(pa.table({"name": [name]}), given_columns(rows))


@settings(deadline=None)
@given(transformations(), st.sampled_from(["job", ""]))
def test_short_lines_have_the_errors_of_whole_ones(rows, name):
    assert frame_contents(read(rows, name, large=0)) == frame_contents(read(rows, name))


def chain(size, **of_one):
    """Rows of a chain; the one in the middle has other values."""
    rows = [
        {
            "topology_id": topology_id("job"),
            "id": number,
            "kind": "source" if number == 1 else "one_input",
            "inputs": [number - 1] if number > 1 else [],
            **{name: None for name in of_one if name not in ("id", "inputs")},
        }
        for number in range(1, size + 1)
    ]
    rows[size // 2] |= of_one
    return rows


@pytest.mark.parametrize(
    ("of_one", "right"),
    [
        ({"parallelism": -3}, {"id": 1, "kind": "source"}),
        ({"inputs": [9]}, {"id": 3, "kind": "union", "inputs": [2]}),
        ({"inputs": [2, 99]}, {"id": 3, "kind": "union", "inputs": [2]}),
    ],
)
def test_right_rows_keep_what_errors_of_others_depend_on(of_one, right):
    table = given_columns(chain(9, **of_one))
    rows = normalized_transformations(columns_of(table.schema, [table]))
    text = short_line({"name": "job", "parallelism": 2, "config": []}, rows)
    assert text is not None
    line = orjson.loads(text)
    assert (line["name"], line["parallelism"]) == ("job", 2)
    assert right in line["transformations"]
    assert len(line["transformations"]) == 9


def test_where_ids_are_not_counted_there_is_no_short_line():
    table = given_columns(chain(9, id=4))
    rows = normalized_transformations(columns_of(table.schema, [table]))
    assert short_line({"name": "job"}, rows) is None


def test_errors_beyond_the_first_thousand_are_counted(monkeypatch):
    rows = [{**row, "parallelism": -3, "uid_hash": "no hash"} for row in chain(40, parallelism=-3)]
    whole = read(rows).rejected["errors"].to_list()
    monkeypatch.setattr(validation, "_KEPT", 25)
    assert read(rows).rejected["errors"].to_list() == whole
    assert whole[0][-1]["found"] == "60 more errors"
