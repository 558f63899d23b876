import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.row import Row
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.collection import CollectionSource
from penstock.operators.connectors.source import NumberSequenceSource, Source
from penstock.operators.formats.csv_files import CHUNK_VALUES, Chunk, chunks_of
from tests.operators.connectors.run_connectors import context, read_batches, read_subtasks, read_values


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_a_collection_is_read_by_one_subtask_in_order(parallelism):
    values = [{"a": 1}, None, [1, 2], "x", Row(a=1)] * 3000
    subtasks = read_subtasks(CollectionSource(values), parallelism)
    assert subtasks == [values, *([] for _ in range(parallelism - 1))]


def test_values_that_only_cloudpickle_takes_come_along():
    (function,) = read_values(CollectionSource([lambda x: x + 1]))
    assert function(1) == 2


def test_a_typed_collection_gives_rows_and_batches():
    row_type = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])
    source = CollectionSource([("a", 1), ("b", None)], row_type)
    assert read_values(source) == [Row(name="a", n=1), Row(name="b", n=None)]
    (batch,) = read_batches(source)
    assert batch.to_pydict() == {"name": ["a", "b"], "n": [1, None]}
    (batch,) = read_batches(CollectionSource([1.5, None], Types.DOUBLE()))
    assert batch.to_pydict() == {"value": [1.5, None]}


def test_values_of_another_type_are_refused_on_the_driver():
    with pytest.raises(TypeError):
        CollectionSource(["a"], Types.INT())


def test_a_collection_without_type_has_no_batches():
    with pytest.raises(ValueError, match="schema is not declared"):
        CollectionSource([1]).batches()


def test_an_empty_collection_is_no_chunk():
    assert read_subtasks(CollectionSource([]), 2) == [[], []]


@given(st.integers(-1000, 1000), st.integers(0, 3000), st.integers(1, 9))
def test_numbers_are_cut_into_ranges_of_equal_size(start, more, parallelism):
    subtasks = read_subtasks(NumberSequenceSource(start, start + more), parallelism)
    assert [one for values in subtasks for one in values] == list(range(start, start + more + 1))
    sizes = [len(values) for values in subtasks]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_all_longs_are_numbers():
    source = NumberSequenceSource(-(2**63), 2**63 - 1)
    splits = source.splits(3)
    assert splits[0][0][0] == -(2**63)
    assert splits[2][0][1] == 2**63 - 1
    assert sum(last - first + 1 for ((first, last),) in splits) == 2**64
    last = NumberSequenceSource(2**63 - 70_000, 2**63 - 1)
    assert read_values(last, 2) == list(range(2**63 - 70_000, 2**63))
    numbers = np.concatenate([batch.column("value").to_numpy() for batch in read_batches(last, 2)])
    assert numbers.tolist() == list(range(2**63 - 70_000, 2**63))


@pytest.mark.parametrize(("start", "end"), [(1, 0), (-(2**63) - 1, 0), (0, 2**63)])
def test_wrong_ranges_are_refused(start, end):
    with pytest.raises(ValueError, match=r"must be <=|int of 64 bits"):
        NumberSequenceSource(start, end)


def test_a_source_of_rows_can_give_batches_and_rows_again():
    source = NumberSequenceSource(1, 10)
    assert not source.columnar
    assert source.batches().columnar
    assert not source.batches().rows().columnar
    assert source.rows() is source
    assert not source.columnar


def test_sources_of_java_classes_are_refused():
    with pytest.raises(NoJavaError, match="Java"):
        Source("org.example.MySource")  # type: ignore[abstract]


def test_chunks_are_bounded():
    sizes = [len(chunk.values) for chunk in chunks_of(list(range(3 * CHUNK_VALUES + 1)))]
    assert sizes == [CHUNK_VALUES] * 3 + [1]
    chunk = next(iter(NumberSequenceSource(0, 10**12).read((0, 10**12), context())))
    assert isinstance(chunk, Chunk)
    assert len(chunk.values) == CHUNK_VALUES
    stamped = list(chunks_of(list(range(CHUNK_VALUES + 1)), list(range(CHUNK_VALUES + 1))))
    assert stamped[1] == ([CHUNK_VALUES], [CHUNK_VALUES])


def test_the_collection_is_pickled_once():
    source = CollectionSource(["x" * 1000 for _ in range(5000)])
    assert len(pickle.dumps(source)) < 2 * len(pickle.dumps(["x" * 1000 for _ in range(5000)]))
    assert len(pickle.dumps(source.splits(3))) < 100
