"""Keys of a declared type are what PyFlink's coder of the type makes of them, or are refused."""

import struct

import pytest

from penstock.operators.common.typeinfo import Types
from penstock.operators.records.key_selection import typed_keys


@pytest.mark.parametrize(
    ("key_type", "given", "expected"),
    [
        (Types.INT(), 3, 3),
        (Types.INT(), -(1 << 31), -(1 << 31)),
        (Types.INT(), 1.5, 1),
        (Types.INT(), None, None),
        (Types.LONG(), 1 << 62, 1 << 62),
        (Types.STRING(), "x", "x"),
        (Types.STRING(), None, None),
        (Types.BOOLEAN(), 1, True),
        (Types.DOUBLE(), 1, 1.0),
        (Types.FLOAT(), 0.1, struct.unpack("f", struct.pack("f", 0.1))[0]),
        (Types.TUPLE([Types.INT()]), (1,), (1,)),
        (Types.PICKLED_BYTE_ARRAY(), [1], [1]),
        (None, "x", "x"),
    ],
)
def test_keys_are_of_their_type(key_type, given, expected):
    found = typed_keys(lambda value: value, key_type)(given)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("key_type", "given", "error"),
    [
        (Types.INT(), "a", TypeError),
        (Types.INT(), 1 << 31, OverflowError),
        (Types.BYTE(), 128, OverflowError),
        (Types.LONG(), 1 << 63, OverflowError),
        (Types.STRING(), 1, TypeError),
        (Types.STRING(), b"a", TypeError),
        (Types.BOOLEAN(), "a", TypeError),
        (Types.DOUBLE(), "1", TypeError),
        (Types.TUPLE([Types.INT()]), ("a",), TypeError),
    ],
)
def test_keys_of_another_type_are_refused(key_type, given, error):
    with pytest.raises(error, match=str(key_type).rpartition("(")[2].rstrip(")")):
        typed_keys(lambda value: value, key_type)(given)
