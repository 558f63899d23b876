"""Keys of a list of records are those that the selector gives for each of them alone."""

from typing import Any, NoReturn

import pytest

from penstock.operators.common.row import Row
from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.records.key_selection import keys_of_records, typed_keys


class Failed(Exception):
    """Names the record whose key failed."""


def _failed(error: BaseException, record: Any) -> NoReturn:
    raise Failed(type(error).__name__, record) from error


@pytest.mark.parametrize(
    ("key_type", "holder"),
    [(Types.ROW([Types.LONG()]), Row(0)), (Types.TUPLE([Types.LONG()]), [0])],
    ids=["row", "tuple"],
)
def test_a_selector_may_return_one_object_that_it_changes(key_type: TypeInformation, holder: Any) -> None:
    def select(value: int) -> Any:
        holder[0] = value
        return holder

    keys = keys_of_records(typed_keys(select, key_type), [1, 2, 3], _failed)
    assert [key[0] for key in keys] == [1, 2, 3]


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.LONG(), [1, True, -(1 << 63), (1 << 63) - 1]),
        (Types.DOUBLE(), [1.5, 2, float("inf")]),
        (Types.STRING(), ["a", ""]),
        (Types.BYTE(), []),
    ],
    ids=["long", "double", "string", "none"],
)
def test_keys_of_a_list_are_those_of_each_record(key_type: TypeInformation, keys: list[Any]) -> None:
    select = typed_keys(lambda value: value, key_type)
    found = keys_of_records(select, keys, _failed)
    each = [select(key) for key in keys]
    assert [(type(key), key) for key in found] == [(type(key), key) for key in each]


@pytest.mark.parametrize(
    ("key_type", "keys"), [(Types.BYTE(), [1, 127, 128, 300]), (Types.LONG(), [1, 2, "x", 3])]
)
def test_the_record_whose_key_is_not_of_the_type_is_named(key_type: TypeInformation, keys: list[Any]) -> None:
    with pytest.raises(Failed) as raised:
        keys_of_records(typed_keys(lambda value: value, key_type), keys, _failed)
    assert raised.value.args[1] == keys[2]


def test_the_record_whose_selector_raises_is_named() -> None:
    with pytest.raises(Failed) as raised:
        keys_of_records(typed_keys(lambda value: 10 // value, Types.LONG()), [5, 0, 2], _failed)
    assert raised.value.args == ("ZeroDivisionError", 0)
