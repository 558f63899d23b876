"""How the contents of a window are folded."""

from typing import Any

import pytest

from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import AggregateFunction
from penstock.operators.state.interfaces import AggregatingStateDescriptor
from penstock.operators.windows.panes import fold_of


class ForgetsSevens(AggregateFunction):
    """Counts, and has no accumulator after a 7."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return None if value == 7 else "text" if value == 8 else accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def test_an_accumulator_is_checked_record_by_record_only_where_there_is_none():
    pickled, typed = (
        fold_of(AggregatingStateDescriptor("s", ForgetsSevens(), type_info))
        for type_info in (Types.PICKLED_BYTE_ARRAY(), Types.INT())
    )
    assert [pickled.first(value) for value in (1, 7, None)] == [1, None, None]
    assert [typed.first(value) for value in (1, 8)] == [1, "text"]
    with pytest.raises(Exception, match="None"):
        typed.first(7)
    with pytest.raises(Exception, match="text"):
        typed.result(typed.first(8))
