"""look_up and runs against a hash join and windows."""

import numpy as np
import polars as pl
import pytest

from penstock.plans.frames import polars_frames as frames
from penstock.plans.frames.arrays import runs
from penstock.plans.frames.polars_frames import join_topology, look_up
from penstock.plans.tables.column_types import TOPOLOGY

KEYS = {TOPOLOGY: pl.Int64, "id": pl.Int32}
NEAR, FAR, NEGATIVE, NULL = [0, 1, 2, 3], [0, 5, 2**31 - 1, 70_000], [-3, 0, 1, -1], [1, None, 2, 0]


def frame(topologies, ids, **columns):
    return pl.DataFrame({TOPOLOGY: topologies, "id": ids, **columns}, schema_overrides=KEYS)


@pytest.mark.parametrize("ids", [NEAR, FAR, NEGATIVE, NULL])
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5, 6, 7], [6, 1, 4, 3, 0, 5, 7, 2]])
def test_rows_are_found_as_by_a_left_join(ids, order):
    found = frame([-7] * 4 + [2**62] * 4, ids * 2, name=list("abcdefgh"), number=range(8))[order]
    rows = frame([2**62, 5, -7, -7, 2**62, -7], [ids[0], ids[0], ids[3], 4, -2, ids[2]], kept=range(6))
    assert look_up(rows, found, {"id": "id"}).equals(join_topology(rows, found, {"id": "id"}, "left"))


def test_nothing_is_found_in_nothing():
    rows, found = frame([1], [2]), frame([3], [4], name=["a"])
    for of_rows, of_found in ((rows[:0], found), (rows, found[:0]), (rows[:0], found[:0])):
        joined = look_up(of_rows, of_found, {"id": "id"})
        assert joined.schema == {**KEYS, "name": pl.String}
        assert joined["name"].to_list() == [None] * len(of_rows)


def test_columns_of_a_topology_are_found_without_an_id():
    settings = pl.DataFrame({TOPOLOGY: [2, 1], "batch": [True, False]})
    assert look_up(frame([1, 2, 3], [0, 0, 0]), settings, {})["batch"].to_list() == [False, True, None]


def test_several_rows_for_one_key_are_refused():
    with pytest.raises(ValueError, match="several rows for one key"):
        look_up(frame([1], [2]), frame([1, 1], [2, 2], name=["a", "b"]), {"id": "id"})


def test_runs_number_and_count_their_rows():
    found = runs(np.array([1, 1, 1, 2, 2, 1]), np.array([0, 0, 3, 3, 3, 3]))
    assert found.numbers().tolist() == [0, 1, 0, 0, 1, 0]
    assert found.lengths().tolist() == [2, 2, 1, 2, 2, 1]
    assert runs(np.array([], np.int64)).lengths().tolist() == []


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("on", [{"id": "id"}, {}])
@pytest.mark.parametrize("ids", [NEAR, FAR, NEGATIVE, NULL])
def test_joins_by_cells_are_hash_joins(monkeypatch, how, on, ids):
    right = frame([7, 7, -5, -5], ids, name=list("abcd"))
    if not on:
        right = right.drop("id")[[0, 2]]
    left = frame([-5, 7, 7, 9, -5, 7], [ids[2], ids[1], 77, ids[0], ids[3], ids[0]], kept=range(6))
    monkeypatch.setattr(frames, "MANY", 10**9)
    hashed = join_topology(left, right, on, how)
    monkeypatch.setattr(frames, "MANY", 0)
    assert join_topology(left, right, on, how).equals(hashed if how != "anti" else hashed.sort("kept"))


def test_a_key_in_several_rows_is_joined_with_each(monkeypatch):
    monkeypatch.setattr(frames, "MANY", 0)
    right = frame([1, 1, 2], [5, 5, 5], name=["a", "b", "c"])
    assert join_topology(frame([1, 2], [5, 5]), right, {"id": "id"})["name"].to_list() == ["a", "b", "c"]
