import ctypes
import json
import pickle
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.common.java_hash import pickled_key_hashes, polynomial_hashes, string_hashes
from penstock.operators.common.key_groups import (
    key_groups,
    key_groups_of_column,
    murmur_hash,
    operator_index,
)
from penstock.operators.common.row import Row
from penstock.operators.common.serialized_keys import dictionary_key, serialized_key
from penstock.operators.common.typeinfo import Types

STEADY = settings(derandomize=True, deadline=None)
CASE = json.loads(Path(__file__).with_name("hash_partition_by_type.json").read_text(encoding="utf-8"))
KEY_TYPES = {
    "int": Types.INT(),
    "long": Types.LONG(),
    "string": Types.STRING(),
    "boolean": Types.BOOLEAN(),
    "double": Types.DOUBLE(),
    "tuple": Types.TUPLE([Types.INT(), Types.STRING()]),
    "row": Types.ROW([Types.INT(), Types.STRING()]),
}


def subtasks_of_flink():
    """(label, key, subtask of 4) of the case hash_partition_by_type."""
    for line in CASE["results"]:
        label, key, subtask = eval(line.removeprefix("RESULT "))
        yield label, eval(key, {"Row": Row}), subtask


@pytest.mark.parametrize("label", KEY_TYPES)
def test_the_subtasks_that_flink_chose(label):
    assert CASE["parallelism"] == 4
    cases = [(key, subtask) for of, key, subtask in subtasks_of_flink() if of == label]
    assert len(cases) == 16
    groups = key_groups([key for key, _ in cases], KEY_TYPES[label], 128)
    assert [operator_index(group, 128, 4) for group in groups] == [subtask for _, subtask in cases]


def java_murmur(code):
    """MathUtils.murmurHash, one number at a time."""

    def rotated(value, bits):
        return ((value << bits) | (value >> (32 - bits))) & 0xFFFFFFFF

    code = code * 0xCC9E2D51 & 0xFFFFFFFF
    code = rotated(code, 15) * 0x1B873593 & 0xFFFFFFFF
    code = (rotated(code, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF ^ 4
    code = (code ^ code >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    code = (code ^ code >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    code ^= code >> 16
    signed = ctypes.c_int32(code).value
    return 0 if signed == -(2**31) else abs(signed)


@STEADY
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_murmur(codes):
    assert murmur_hash(np.array(codes, dtype=np.uint32)).tolist() == list(map(java_murmur, codes))


@STEADY
@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9)), st.sampled_from([0, 1, 7]))
def test_polynomials(sequences, initial):
    expected = []
    for sequence in sequences:
        found = initial
        for element in sequence:
            found = found * 31 + element
        expected.append(found % (1 << 32))
    offsets = np.cumsum([0, *map(len, sequences)])
    elements = np.array([element for sequence in sequences for element in sequence], dtype=np.int64)
    assert polynomial_hashes(elements, offsets, initial).tolist() == expected


@pytest.mark.parametrize("lengths", [[70_000], [3, 200_000, 0, 5], [65_536, 65_535, 65_537, 1], [40_000] * 5])
def test_polynomials_of_long_sequences(lengths):
    offsets = np.cumsum([0, *lengths])
    elements = np.random.default_rng(1).integers(-128, 128, offsets[-1], dtype=np.int64)
    expected = []
    for start, end in pairwise(offsets):
        found = 1
        for element in elements[start:end].tolist():
            found = (found * 31 + element) & 0xFFFFFFFF
        expected.append(found)
    assert polynomial_hashes(elements, offsets, 1).tolist() == expected


def java_string_hash(text):
    units = text.encode("utf-16-le")
    found = 0
    for at in range(0, len(units), 2):
        found = (found * 31 + units[at] + 256 * units[at + 1]) & 0xFFFFFFFF
    return found


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@STEADY
@given(st.lists(TEXTS), st.sampled_from([pa.string(), pa.large_string()]), st.integers(0, 3))
def test_strings(texts, kind, start):
    column = pa.array(texts, kind).slice(start)
    assert string_hashes(column).tolist() == list(map(java_string_hash, texts[start:]))


def java_bytes_hash(content):
    found = 1
    for one in content:
        found = (found * 31 + (one - 256 if one > 127 else one)) & 0xFFFFFFFF
    return found


@STEADY
@given(st.lists(TEXTS, min_size=1) | st.lists(st.integers(), min_size=1))
def test_keys_of_no_type_are_hashed_as_their_pickles(keys):
    expected = [(java_bytes_hash(pickle.dumps(key, protocol=5)) + 62) & 0xFFFFFFFF for key in keys]
    assert pickled_key_hashes(keys).tolist() == expected


def test_long_strings_of_no_type():
    keys = ["x" * length for length in (254, 255, 256, 257, 70_000)] + ["é" * 127, "é" * 128]
    expected = [(java_bytes_hash(pickle.dumps(key, protocol=5)) + 62) & 0xFFFFFFFF for key in keys]
    assert pickled_key_hashes(keys).tolist() == expected


class Point:
    def __init__(self, x):
        self.x = x


PAIRS_OF_EQUAL_KEYS = [
    (("ab" * 2, "abab"), ("ab" + "ab", "".join(["ab", "ab"]))),
    ({"a": 1, "b": 2}, {"a": 1} | {"b": 2}),
    ({"x", "y", "zz", "q"}, {"q", "zz", "y", "x"}),
    ([float("nan")], [-float("nan")]),
    (Row(a=1, b=[2]), Row(a=1, b=[2])),
    (Point("p"), Point("p")),
    (np.array([1, 2]), np.array([1, 2])),
    ((1, {"k": [Row(1)]}), (1, {"k": [Row(1)]})),
]


@pytest.mark.parametrize(("one", "other"), PAIRS_OF_EQUAL_KEYS)
def test_equal_keys_of_no_type_share_a_group(one, other):
    assert dictionary_key(one) == dictionary_key(other)
    assert serialized_key(one) == serialized_key(other)
    assert len(set(key_groups([one, other, one], None, 32768))) == 1


def test_the_group_depends_on_the_key_alone():
    keys = ["a", 1, True, 1.0, None, ("a", 1), [1], {"a": 1}, Row(1), b"x", 2**70, Point(3), "a" * 300]
    together = key_groups(keys, None, 32768)
    assert together == [key_groups([key], None, 32768)[0] for key in keys]
    assert len(set(together)) == len(keys)


def test_columns_of_other_types():
    words = ["b", "a", None, "é"]
    expected = key_groups(words, Types.STRING(), 128)
    for column in (
        pa.array(words).dictionary_encode(),
        pa.array(words, pa.large_string()),
        pa.chunked_array([pa.array(words[:2]), pa.array(words[2:])]),
    ):
        assert key_groups_of_column(column, Types.STRING(), 128).tolist() == expected
        assert key_groups_of_column(column, None, 128).tolist() == expected
    longs = key_groups([1, 2], Types.LONG(), 128)
    assert key_groups_of_column(pa.array([1, 2], pa.int32()), Types.LONG(), 128).tolist() == longs
    pairs = pa.StructArray.from_arrays([pa.array([1, 2], pa.int32()), pa.array(["a", "b"])], names=["x", "y"])
    row_groups = key_groups([Row(1, "a"), Row(2, "b")], KEY_TYPES["row"], 128)
    assert key_groups_of_column(pairs, None, 128).tolist() == row_groups


def test_no_keys():
    for type_info in (None, Types.INT(), Types.STRING(), KEY_TYPES["row"], Types.LIST(Types.INT())):
        assert key_groups([], type_info, 128) == []


@pytest.mark.parametrize(("key", "error"), [("x", TypeError), (2**31, OverflowError), (None, None)])
def test_keys_of_another_type(key, error):
    if error is None:
        assert key_groups([key], Types.INT(), 128) == key_groups([None], Types.STRING(), 128)
        return
    with pytest.raises(error, match=re.escape(repr(key))):
        key_groups([1, key], Types.INT(), 128)


@STEADY
@given(st.integers(1, 300), st.integers(0, 3000))
def test_groups_are_divided_evenly_and_in_order(parallelism, more):
    max_parallelism = parallelism + more
    subtasks = [operator_index(group, max_parallelism, parallelism) for group in range(max_parallelism)]
    sizes = [subtasks.count(subtask) for subtask in range(parallelism)]
    assert subtasks == sorted(subtasks)
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1
