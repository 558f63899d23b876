"""Plans of topologies that are planned again and again, such as the one of a stream's batches."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import orjson

_T = TypeVar("_T")

#: By the step of planning, and the topology as JSON.
Plans = dict[tuple[str, bytes], Any]

_MOST = 8
_plans: ContextVar[Plans | None] = ContextVar("plans", default=None)


@contextmanager
def remembering(plans: Plans) -> Iterator[None]:
    """Plan each topology once inside the block; the results stay in `plans` for later blocks."""
    token = _plans.set(plans)
    try:
        yield
    finally:
        _plans.reset(token)


def remembered(step: str, topology: Mapping[str, Any], plan: Callable[[], _T]) -> _T:
    """Return the result of `plan`, which depends on the topology only, or an earlier result for it."""
    plans = _plans.get()
    if plans is None:
        return plan()
    key = step, orjson.dumps(topology)
    if key not in plans:
        if len(plans) >= _MOST:
            plans.clear()
        plans[key] = plan()
    known: _T = plans[key]
    return known
