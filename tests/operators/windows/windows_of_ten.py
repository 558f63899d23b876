"""Windows of ten milliseconds, records at a time, and window operators of any trigger."""

# mypy: disable-error-code="arg-type,method-assign,type-arg,var-annotated"

from penstock.operators.windows.assigners import TumblingEventTimeWindows
from penstock.operators.windows.trigger import TriggerResult
from penstock.operators.windows.window_functions import buffered
from tests.operator_harness import Record
from tests.operators.windows.window_jobs import Show, operator

TEN = TumblingEventTimeWindows(10, 0)
CONTINUE, FIRE, PURGE = TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.PURGE


def processing(assigner, trigger=None, **settings):
    return operator(assigner, buffered(Show()), trigger, **settings)


def at(time, number=0, key="k"):
    return Record((key, time, number), time)
