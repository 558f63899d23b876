"""Two streams of which one is keyed: its records reach a function as rows of key and record.

Source: pyflink.datastream.data_stream.ConnectedStreams, whose keyed streams consist of such rows.
"""

from typing import NoReturn

from penstock.operators.chain.operator import Values
from penstock.operators.common.row import Row
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.records.key_selection import KEY_SELECTOR, KeyedRow, keys_of_records
from penstock.operators.records.user_function import FunctionOperator


class OneKeyedInput(FunctionOperator):
    """An operator of two inputs without state by key. `rows`: for each input what makes a row of a record."""

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
        """The records of input `number`, from 1, as the function takes them."""
        make_row = self.rows[number - 1]
        if make_row is None:
            return values
        keys = keys_of_records(make_row.select, values, self._failed)
        return [Row(f0=key, f1=value) for key, value in zip(keys, values, strict=True)]

    def _failed(self, error: BaseException, record: object) -> NoReturn:
        raise self.failed(error, record, KEY_SELECTOR) from error
