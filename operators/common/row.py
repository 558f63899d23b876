"""Rows: values by position and, mostly, by name. Source: pyflink.common.types."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from itertools import repeat
from typing import Any, NoReturn

from penstock.operators.common.arguments import no_java


class RowKind(Enum):
    """The kind of change that a row stands for."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]

    def to_j_row_kind(self) -> NoReturn:
        """Raise NoJavaError: jobs of Penstock run no Java."""
        no_java("RowKind.to_j_row_kind")


class Row:
    """A row of values, by position or by name.

    `row[0]`, `row["name"]` and `row.name` read a value; the first two also set it. A row of names makes rows:
    `Row("n", "s")(1, "a")`. Rows are equal if their kinds, names and values are.

    Args:
        *args: Values by position.
        **kwargs: Values by name, instead.

    Raises:
        ValueError: Values of both sorts.

    Examples:
        >>> from penstock.common import Row
        >>> Row(name="a", amount=1).as_dict()
        {'name': 'a', 'amount': 1}
    """

    __slots__ = ("_names", "_row_kind", "_values")

    _names: list[str] | None
    _row_kind: RowKind
    _values: list[Any]
    _has_fields = False
    """Whether fields are attributes of the class, see _named_row."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ValueError("the values of a Row must be given either by position or by name")
            set_names(self, list(kwargs))
            set_values(self, list(kwargs.values()))
        else:
            set_names(self, None)
            set_values(self, list(args))
        set_kind(self, RowKind.INSERT)

    @property
    def _fields(self) -> list[str]:
        # PyFlink's name; as there, rows without names do not have it
        if self._names is None:
            raise AttributeError("_fields")
        return self._names

    @_fields.setter
    def _fields(self, names: list[str] | None) -> None:
        if self._has_fields:
            object.__setattr__(self, "__class__", Row)
        set_names(self, names)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the values by name.

        Args:
            recursive: Convert rows in values, lists and dicts, too.

        Returns:
            dict: Value by name.

        Raises:
            TypeError: The row has no names.
        """
        if self._names is None:
            raise TypeError("a Row without field names has no dict")
        values = map(_plain, self._values) if recursive else self._values
        return dict(zip(self._names, values, strict=False))

    asDict = as_dict  # Spark's name, for rows of DataFrames

    def get_row_kind(self) -> RowKind:
        """Return the kind of change."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of change.

        Args:
            row_kind: A RowKind.
        """
        set_kind(self, row_kind)

    def set_field_names(self, field_names: list[str]) -> None:
        """Name the values.

        Args:
            field_names: One name per value, in order.
        """
        self._fields = field_names

    def get_fields_by_names(self, names: list[str]) -> list[Any]:
        """Return values by their names.

        Args:
            names: Names, in the order of the result.

        Returns:
            list: All values if the row has no names.

        Raises:
            ValueError: The row has names, but not all of these.
        """
        own_names = self._names
        if own_names is None or names == own_names:
            return self._values
        missing = [name for name in names if name not in own_names]
        if missing:
            raise ValueError(f"fields {missing} are not among the fields {own_names} of the row")
        return [self._values[own_names.index(name)] for name in names]

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Make a row of a kind of change.

        Args:
            row_kind: A RowKind.
            *args: Values by position.
            **kwargs: Values by name, instead.

        Returns:
            Row: The row.
        """
        row = Row(*args, **kwargs)
        set_kind(row, row_kind)
        return row

    def _is_retract_msg(self) -> bool:
        return self._row_kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE)

    def _is_accumulate_msg(self) -> bool:
        return not self._is_retract_msg()

    def __call__(self, *args: Any) -> Row:
        """A row whose names are the values of this one. ValueError for more values than that."""
        if len(args) > len(self._values):
            raise ValueError(f"{self} takes at most {len(self._values)} values, got {len(args)}: {args}")
        return create_row(self._values, args, self._row_kind)

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._names is None else self._names)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, slice)):
            return self._values[item]
        return self._values[self._fields.index(item)]

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, (int, slice)):
            self._values[key] = value
        elif self._names is None:
            raise KeyError(key)
        else:
            self._values[self._names.index(key)] = value

    def __getattr__(self, item: str) -> Any:
        if item[0] == "_" or self._names is None:
            raise AttributeError(item)
        try:
            return self._values[self._names.index(item)]
        except ValueError:
            raise AttributeError(item) from None

    def __setattr__(self, key: str, value: Any) -> None:
        if key not in ("_fields", "_values", "_row_kind"):
            raise AttributeError(f"{key}: fields are set by row[{key!r}] = …")
        object.__setattr__(self, key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return create_row, (self._names, tuple(self._values), self._row_kind)

    def __repr__(self) -> str:
        if self._names is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        pairs = zip(self._names, self._values, strict=False)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return False
        if self._row_kind is not other._row_kind:
            return False
        if self._names is None or other._names is None or self._names == other._names:
            return self._values == other._values and self._names == other._names
        if sorted(self._names) != sorted(other._names):
            return False
        return all(self[name] == other[name] for name in self._names)

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def names_of_row(value: Any) -> list[str] | None:
    """Return the names of the fields of a Row, Spark's or this one; None for another value.

    Also None for a row without names, and for a row of Spark in which a name occurs twice.
    """
    if isinstance(value, Row):
        return value._names
    # looked up by name: if Spark is not imported, no value is a Row of Spark
    if isinstance(value, tuple) and type(value).__module__ == "pyspark.sql.types":
        names = getattr(value, "__fields__", None)
        return None if names is None or len(set(names)) < len(names) else list(names)
    return None


#: Setters that bypass `__setattr__`, which is slow: (row, value).
set_names = Row.__dict__["_names"].__set__
set_values = Row.__dict__["_values"].__set__
set_kind = Row.__dict__["_row_kind"].__set__


def create_row(names: list[str] | None, values: Sequence[Any], kind: RowKind | None = None) -> Row:
    """Return a row of `values` named `names`, of kind INSERT if `kind` is None."""
    row = Row.__new__(Row)
    set_names(row, names)
    set_values(row, list(values))
    set_kind(row, RowKind.INSERT if kind is None else kind)
    return row


def rows_of_columns(names: list[str], columns: Sequence[Sequence[Any]]) -> list[Row]:
    """Return rows of kind INSERT with these columns, at least one, all of one length."""
    lists = list(map(list, zip(*columns, strict=True)))
    kind = _named_row(tuple(names))
    rows = list(map(kind.__new__, repeat(kind, len(lists))))
    # no Python code per row: this loop is the cost of reading rows
    deque(map(set_values, rows, lists), 0)
    deque(map(set_names, rows, repeat(names)), 0)
    deque(map(set_kind, rows, repeat(RowKind.INSERT)), 0)
    return rows


def _value_at(place: int) -> Callable[[Row], Any]:
    return lambda row: row._values[place]


@lru_cache(maxsize=1024)
def _named_row(names: tuple[str, ...]) -> type[Row]:
    """Return a Row class with its fields as attributes, five times as fast as a search among the names."""
    fields: dict[str, Any] = {
        name: property(_value_at(at))
        for at, name in enumerate(names)
        if not name.startswith("_") and not hasattr(Row, name)
    }
    return type("Row", (Row,), {**fields, "__slots__": (), "_has_fields": True})


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
