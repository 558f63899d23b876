import copy
import pickle

import pytest

from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.row import Row, RowKind, rows_of_columns


def test_by_name():
    row = Row(name="Ann", age=7)
    assert repr(row) == "Row(name='Ann', age=7)"
    assert (row.name, row["age"], row[0], row[0:2]) == ("Ann", 7, "Ann", ["Ann", 7])
    assert "name" in row
    assert "Ann" not in row
    assert list(row) == ["Ann", 7]
    assert len(row) == 2


def test_by_position():
    row = Row("Ann", 7)
    assert repr(row) == "<Row('Ann', 7)>"
    assert "Ann" in row
    assert not hasattr(row, "_fields")
    with pytest.raises(AttributeError):
        _ = row.name
    with pytest.raises(AttributeError):
        _ = row["name"]
    with pytest.raises(KeyError):
        row["name"] = "Bob"
    with pytest.raises(TypeError):
        row.as_dict()


def test_names_given_later():
    row = Row("Ann", 7)
    row.set_field_names(["name", "age"])
    assert row == Row(name="Ann", age=7)
    assert row._fields == ["name", "age"]


def test_factory_of_rows():
    person = Row("name", "age")
    assert person("Ann", 7) == Row(name="Ann", age=7)
    with pytest.raises(ValueError, match="at most 2"):
        person(1, 2, 3)


def test_values_are_set_by_position_and_name():
    row = Row(a=1, b=2)
    row[0] = 5
    row["b"] = 6
    assert row == Row(a=5, b=6)
    with pytest.raises(AttributeError):
        row.a = 1
    with pytest.raises(ValueError, match="not in list"):
        row["c"]


def test_positions_and_names_together():
    with pytest.raises(ValueError, match="either by position or by name"):
        Row(1, a=2)


def test_equality():
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert Row(a=1) != Row(1)
    assert Row(1) != Row(a=1)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(a=2)
    assert Row(1) != (1,)
    assert Row(1) != Row.of_kind(RowKind.DELETE, 1)
    assert hash(Row(1, 2)) == hash(Row(a=1, b=2)) == hash((1, 2))


def test_kinds():
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=1)
    assert row.get_row_kind() is RowKind.UPDATE_AFTER
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]
    row.set_row_kind(RowKind.DELETE)
    assert (row._is_retract_msg(), Row(1)._is_accumulate_msg()) == (True, True)
    with pytest.raises(NoJavaError, match="to_j_row_kind"):
        RowKind.INSERT.to_j_row_kind()


def test_as_dict():
    row = Row(a=1, b=Row(c=2), d=[Row(e=3)], f={"g": Row(h=4)})
    assert row.as_dict() == {"a": 1, "b": Row(c=2), "d": [Row(e=3)], "f": {"g": Row(h=4)}}
    assert row.as_dict(True) == {"a": 1, "b": {"c": 2}, "d": [{"e": 3}], "f": {"g": {"h": 4}}}


def test_fields_by_names():
    row = Row(a=1, b=2)
    assert row.get_fields_by_names(["b", "a"]) == [2, 1]
    assert Row(1, 2).get_fields_by_names(["x", "y"]) == [1, 2]
    with pytest.raises(ValueError, match=r"\['c'\]"):
        row.get_fields_by_names(["a", "c"])


@pytest.mark.parametrize("row", [Row(), Row(1, "a"), Row(a=1, b=[2]), Row.of_kind(RowKind.DELETE, a=None)])
@pytest.mark.parametrize("again", [lambda row: pickle.loads(pickle.dumps(row)), copy.copy, copy.deepcopy])
def test_copies(row, again):
    found = again(row)
    assert found == row
    assert found is not row
    assert repr(found) == repr(row)


def test_rows_of_columns_are_rows_like_any_other():
    names = ["n", "count", "as_dict", "_hidden"]
    row, other = rows_of_columns(names, [[1, 2], ["a", "b"], [3, 4], [5, 6]])
    assert row == Row(n=1, count="a", as_dict=3, _hidden=5) != other
    assert Row(n=1, count="a", as_dict=3, _hidden=5) == row
    assert hash(row) == hash(Row(1, "a", 3, 5))
    assert (row.n, row.count, row["as_dict"], row["_hidden"]) == (1, "a", 3, 5)
    assert row.as_dict() == dict(zip(names, [1, "a", 3, 5], strict=True))
    row["n"] = 7
    assert row.n == 7
    assert repr(row) == "Row(n=7, count='a', as_dict=3, _hidden=5)"
    assert type(pickle.loads(pickle.dumps(row))) is Row
    with pytest.raises(AttributeError):
        row.n = 8
    row.set_field_names(["x", "y", "z", "w"])
    assert (row.x, row.z, row.get_fields_by_names(["y"])) == (7, 3, ["a"])
    with pytest.raises(AttributeError):
        _ = row.n
