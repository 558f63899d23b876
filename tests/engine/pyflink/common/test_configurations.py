import copy
from typing import Any

import pytest

from penstock.engine.pyflink.common.execution_config import get_duration, get_map, set_duration, set_map
from penstock.operators.common.configuration import ConfigOptions, Configuration, java_text

NO_TEXT: Any = 5
NO_MILLISECONDS: Any = 1.5


def configuration():
    found = Configuration().set_string("a", "x").set_integer("i", 5).set_boolean("b", True)
    return found.set_float("f", 1.5).set_bytearray("y", bytearray(b"\x01\xff"))


def test_text_of_everything():
    expected = {"a": "x", "b": "true", "f": "1.5", "i": "5", "y": "!!binary |-\n  Af8="}
    assert configuration().to_dict() == expected
    assert {key: configuration().get_string(key, "") for key in expected} == expected
    assert configuration().key_set() == set(expected)


def test_what_was_set_is_read_back():
    found = configuration()
    assert found.get_integer("i", 0) == 5
    assert found.get_boolean("b", False) is True
    assert (found.get_float("f", 0), found.get_float("i", 0)) == (1.5, 5.0)
    assert found.get_bytearray("y", bytearray()) == bytearray(b"\x01\xff")


def test_defaults():
    found = Configuration()
    assert found.get_string("z", None) is None
    assert found.get_integer("z", 7) == 7
    assert found.get_boolean("z", None) is found.get_integer("z", None) is None  # type: ignore[arg-type]
    assert found.get_boolean("z", True) is True
    assert isinstance(found.get_float("z", 2), float)
    assert found.get_bytearray("z", bytearray(b"q")) == bytearray(b"q")


def test_text_is_read_as_numbers():
    found = Configuration.from_dict({"n": "-12", "t": "TRUE", "e": "1e3", "s": " 4 ", "big": "99999999999"})
    assert (found.get_integer("n", 0), found.get_integer("big", 0)) == (-12, 99_999_999_999)
    assert found.get_boolean("t", False) is True
    assert [found.get_float(key, 0) for key in ("n", "e", "s")] == [-12.0, 1000.0, 4.0]


@pytest.mark.parametrize("text", ["x", "1.5", " 4", "", "9223372036854775808"])
def test_no_integers(text):
    with pytest.raises(ValueError, match="'k'"):
        Configuration().set_string("k", text).get_integer("k", 0)


def test_other_values_that_are_not_what_is_asked_for():
    found = configuration()
    for read in (
        lambda: found.get_integer("b", 0),
        lambda: found.get_boolean("i", False),
        lambda: found.get_float("a", 0),
        lambda: found.get_bytearray("a", bytearray()),
    ):
        with pytest.raises(ValueError, match="option"):
            read()
    with pytest.raises(TypeError, match="must be str"):
        Configuration().set_string("a", NO_TEXT)
    with pytest.raises(TypeError, match="must be str"):
        Configuration.from_dict({"a": NO_TEXT})


def test_put_together():
    found = Configuration().add_all(configuration(), "p.").add_all(Configuration.from_dict({"a": "2"}))
    assert found.get_integer("p.i", 0) == 5
    assert found.contains_key("a")
    assert found.remove_config("a")
    assert not found.remove_config("a")
    target: dict[str, Any] = {"old": 1}
    found.add_all_to_dict(target)
    assert target["p.b"] is True
    assert target["p.y"] == b"\x01\xff"
    assert target["old"] == 1


def test_copies_are_independent():
    first = configuration()
    for second in (Configuration(first), copy.deepcopy(first)):
        assert second == first
        assert second.set_string("a", "other") != first


def test_equality_hash_and_text():
    assert Configuration.from_dict({"a": "1"}) != Configuration().set_integer("a", 1)
    assert Configuration() != {}
    # as Flink 2.3 prints and hashes them
    two = Configuration.from_dict({"a": "1", "bb": "2"})
    assert (str(two), hash(two), hash(Configuration())) == ("{bb=2, a=1}", 3105, 0)
    many = Configuration.from_dict({f"k{i}": "" for i in range(40)})
    assert len(many.to_dict()) == 40


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, []),
        ("", []),
        ("a;b", ["a", "b"]),
        ("a", ["a"]),
        ("k: v", ["k: v"]),
        ("[]", []),
        ("[a, b]", ["a", "b"]),
        ('["x", 1]', ["x", 1]),
        ("['it''s', 1.5, true, \"a,b\"]", ["it's", 1.5, True, "a,b"]),
        ("- a\n- 'b'", ["a", "b"]),
        ("- a  # first\n- b: 1", ["a", {"b": 1}]),
        ("[a, [b, 0x10]]", ["a", ["b", 16]]),
        ("[a, b", ["[a, b"]),
    ],
)
def test_lists(text, parts):
    assert Configuration.parse_list_value(text) == parts


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (1e300, "1.0E300"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (1e-4, "1.0E-4"),
        (123456789.123, "1.23456789123E8"),
        (-2.5e-10, "-2.5E-10"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_numbers_as_java_writes_them(number, text):
    assert java_text(number) == text


def test_options():
    option = ConfigOptions.key("a.b").int_type().default_value(5)
    assert (option.key, option.value_type, option.default) == ("a.b", int, 5)
    builder = ConfigOptions.key("a")
    typed: list[Any] = [
        builder.boolean_type(),
        builder.long_type(),
        builder.float_type(),
        builder.double_type(),
        builder.string_type(),
    ]
    assert [one.no_default_value().value_type for one in typed] == [bool, int, float, float, str]
    assert all(one.no_default_value().default is None for one in typed)


def test_durations():
    found = Configuration.from_dict({"old": "2 s", "bad": "x"})
    assert get_duration(found, 7, "new") == 7
    assert get_duration(found, 7, "new", "old") == 2000
    set_duration(found, 5, "new")
    assert get_duration(found, 7, "new", "old") == 5
    with pytest.raises(ValueError, match="'bad'"):
        get_duration(found, 7, "bad")
    with pytest.raises(TypeError, match="int"):
        set_duration(found, NO_MILLISECONDS, "new")


def test_maps():
    found = Configuration()
    values = {"a": "1", "b": "x, y:z", "c d": "it's", "e": "", 'f"': '"'}
    set_map(found, values, "m")
    assert get_map(found, "m") == values
    assert get_map(found, "other") == {}
    with pytest.raises(ValueError, match="key:value"):
        get_map(found.set_string("m", "a:b:c"), "m")
