"""Keys of records, chosen by a function of the author or by columns.

Source: pyflink.datastream.data_stream.DataStream.key_by, whose keys pass through the coder of their type.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from penstock.operators.chain.operator import Values
from penstock.operators.common.arrow_columns import coerce
from penstock.operators.common.basic_types import BasicType
from penstock.operators.common.composite_codecs import INTEGER_BITS
from penstock.operators.common.row import Row
from penstock.operators.common.typeinfo import BasicTypeInfo, PickledBytesTypeInfo, TypeInformation
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.records.map_records import FunctionOperator, current

#: The failed step, in error messages.
KEY_SELECTOR = "key selector"


class TypedKeys:
    """Keys as the coder of their declared type returns them, such as Rows with names."""

    def __init__(self, select: Callable[[Any], Any], key_type: TypeInformation) -> None:
        self.select, self.key_type = select, key_type
        self._unchanged, self._least, self._most = _unchanged(key_type)

    def __call__(self, value: Any) -> Any:
        """Return the key of a record.

        Raises TypeError, OverflowError or ValueError if the key is not of the declared type.
        """
        return self.typed(self.select(value))

    def typed(self, key: Any) -> Any:
        """Return a selected key as the coder of the type returns it.

        Raises TypeError, OverflowError or ValueError if the key is not of the type.
        """
        if type(key) is self._unchanged and (self._least is None or self._least <= key <= self._most):
            return key
        return coerce([key], self.key_type)[0]

    @property
    def basic(self) -> bool:
        """Whether keys of the type never change, so that many may be selected before they are checked."""
        return self._unchanged is not None

    def unchanged(self, keys: Sequence[Any]) -> bool:
        """Whether the coder would return all of these keys of a basic type unchanged."""
        if not {self._unchanged}.issuperset(map(type, keys)):
            return False
        return self._least is None or not keys or (self._least <= min(keys) and max(keys) <= self._most)


def _unchanged(key_type: TypeInformation) -> tuple[Any, int | None, int]:
    """Return the class of keys that the coder leaves unchanged, and, for numbers, their limits or None."""
    basic = key_type._basic_type if isinstance(key_type, BasicTypeInfo) else None
    if basic in INTEGER_BITS:
        most = (1 << INTEGER_BITS[basic] - 1) - 1
        return int, -most - 1, most
    return _UNCHANGED.get(basic), None, 0


_UNCHANGED: dict[BasicType | None, type] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.DOUBLE: float,
    BasicType.BIG_INT: int,
}


class OpenedMethod:
    """A method of a function object that is opened before its first call in a subtask, and closed.

    Key selectors and partitioners are called where a record's subtask is chosen and where its key is needed,
    possibly in one subtask. Each caller opens and closes them; only the first `open` and the first `close` in
    a subtask reach the function.
    """

    def __init__(self, function: Any, method: str) -> None:
        self.function, self.method = function, method
        self.call: Callable[..., Any] = getattr(function, method)
        self._open = False

    def open(self, runtime_context: RuntimeContext) -> None:
        if not self._open:
            self._open = True
            self.function.open(runtime_context)

    def close(self) -> None:
        if self._open:
            self._open = False
            self.function.close()

    def __call__(self, *arguments: Any) -> Any:
        """Return the method's result."""
        return self.call(*arguments)


class ColumnKeys:
    """Keys that are fields of rows, or columns of record batches, without making Python objects."""

    def __init__(self, columns: Sequence[str], positions: Sequence[int]) -> None:
        self.columns, self.positions = tuple(columns), tuple(positions)

    def __call__(self, value: Any) -> Any:
        """Return the key of a record that is a Row or a tuple."""
        if len(self.positions) == 1:
            return value[self.positions[0]]
        return tuple(value[position] for position in self.positions)


class NestedKeys:
    """Keys that are fields of a record or of structs in it, each by a path of positions.

    Null in place of a struct gives None. The empty path is the record itself.
    """

    def __init__(self, paths: Sequence[Sequence[int]]) -> None:
        self.paths = tuple(map(tuple, paths))

    def __call__(self, value: Any) -> Any:
        """Return the field, or a tuple of the fields."""
        keys = tuple(_at_path(value, path) for path in self.paths)
        return keys[0] if len(keys) == 1 else keys


def _at_path(value: Any, path: Sequence[int]) -> Any:
    for position in path:
        if value is None:
            return None
        value = value[position]
    return value


class KeyedRow:
    """A function that returns a Row of a record's key and the record."""

    def __init__(self, select: Callable[[Any], Any]) -> None:
        self.select = select

    def open(self, runtime_context: RuntimeContext) -> None:
        for function in opened_functions(self.select):
            function.open(runtime_context)

    def close(self) -> None:
        for function in opened_functions(self.select):
            function.close()

    def __call__(self, value: Any) -> Row:
        return Row(f0=self.select(value), f1=value)


def typed_keys(select: Callable[[Any], Any], key_type: TypeInformation | None) -> Callable[[Any], Any]:
    """Return `select`, or TypedKeys around it if the coder of the declared type may change keys."""
    if key_type is None or isinstance(key_type, PickledBytesTypeInfo):
        return select
    return TypedKeys(select, key_type)


def keys_of_records(
    select: Callable[[Any], Any], values: Values, failed: Callable[[BaseException, Any], NoReturn]
) -> list[Any]:
    """Return the key of each record, selected one by one.

    If the key of a record raises, calls `failed` with the exception and the record; `failed` must raise.
    """
    # a selector may return the same Row or list again and change it: such keys are copied one by one
    typed = select if isinstance(select, TypedKeys) and select.basic else None
    selected = select if typed is None else typed.select
    call = selected.call if isinstance(selected, OpenedMethod) else selected
    rest = iter(values)
    try:
        keys = [call(value) for value in rest]
    except BaseException as error:
        failed(error, current(values, rest))
    if typed is None or typed.unchanged(keys):
        return keys
    for place, (value, key) in enumerate(zip(values, keys, strict=True)):
        try:
            keys[place] = typed.typed(key)
        except BaseException as error:
            failed(error, value)
    return keys


def opened_functions(*functions: Any) -> list[OpenedMethod]:
    """Return the key selectors and partitioners that must be opened and closed."""
    inner = [function.select if isinstance(function, TypedKeys) else function for function in functions]
    return [function for function in inner if isinstance(function, OpenedMethod)]


# Two streams of which one is keyed: its records reach a function as rows of key and record
#
# Source: pyflink.datastream.data_stream.ConnectedStreams, whose keyed streams consist of such rows.


class OneKeyedInput(FunctionOperator):
    """An operator of two inputs without keyed state.

    `rows`: for each input, a function that makes a row of a record, or None.
    """

    rows: tuple[KeyedRow | None, KeyedRow | None] = (None, None)

    def open(self) -> None:
        """Open key selectors and the function."""
        for make_row in filter(None, self.rows):
            make_row.open(RuntimeContext(self.context))
        super().open()

    def close(self) -> None:
        """Close the function and key selectors."""
        super().close()
        for make_row in filter(None, self.rows):
            make_row.close()

    def records(self, number: int, values: Values) -> Values:
        """Return the records of input `number`, from 1, in the form that the function takes."""
        make_row = self.rows[number - 1]
        if make_row is None:
            return values
        keys = keys_of_records(make_row.select, values, self._failed)
        return [Row(f0=key, f1=value) for key, value in zip(keys, values, strict=True)]

    def _failed(self, error: BaseException, record: object) -> NoReturn:
        raise self.failed(error, record, KEY_SELECTOR) from error
