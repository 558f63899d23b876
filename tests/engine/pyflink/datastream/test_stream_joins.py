"""Window joins, coGroups and interval joins as the Java API has them."""

from typing import Any

import pytest

from penstock.engine.pyflink.datastream import OutputTag
from penstock.operators.common.time import Duration, Time
from penstock.operators.common.typeinfo import Types
from penstock.operators.windows.assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.operators.windows.interval_join import CoGroupOperator, IntervalJoinOperator, WindowJoinOperator
from penstock.operators.windows.triggers import CountTrigger, EventTimeTrigger
from tests.engine.pyflink.datastream.helpers import PAIR, Plan, environment, first, pairs
from tests.engine.pyflink.datastream.test_windowed_streams import CannotMerge

WINDOWS: Any = TumblingEventTimeWindows.of(Time.seconds(5))


@pytest.mark.parametrize(
    ("method", "operator", "described"),
    [("join", WindowJoinOperator, "Join"), ("co_group", CoGroupOperator, "CoGroup")],
)
def test_streams_in_the_same_windows(method: str, operator: type, described: str) -> None:
    env = environment(2)
    pairing = (
        getattr(pairs(env), method)(pairs(env)).where(first, Types.STRING()).equal_to(lambda v: str(v[1]))
    )
    result = pairing.window(WINDOWS).allowed_lateness(50).apply(lambda a, b: (a, b), PAIR)
    assert result.get_name() == "TumblingEventTimeWindows"
    assert result.get_type() == PAIR
    one = result._transformation
    assert type(one.operator).__name__ == operator.__name__
    assert one.description == f"{described}(TumblingEventTimeWindows(5000, 0), EventTimeTrigger, function)"
    assert [selector(("a", 7)) for selector in one.key_selectors] == ["a", "7"]
    assert [given.partitioner for given in one.inputs] == ["hash", "hash"]
    assert isinstance(one.operator.trigger, EventTimeTrigger)
    assert one.operator.allowed_lateness == 50
    plan = Plan(env)
    assert [edge[1] for edge in plan.edges] == ["HASH", "HASH"]
    assert plan.nodes["TumblingEventTimeWindows"]["slot_scope"] == ["STATE_BACKEND"]


def test_a_negative_lateness_is_refused_as_in_java() -> None:
    env = environment()
    pairing = pairs(env).join(pairs(env)).where(first).equal_to(first).window(WINDOWS)
    with pytest.raises(ValueError, match="allowed lateness must be at least 0 ms, got -1"):
        pairing.allowed_lateness(-1)


def test_a_trigger_of_ones_own() -> None:
    env = environment()
    pairing = pairs(env).join(pairs(env)).where(first).equal_to(first)
    result = pairing.window(WINDOWS).trigger(CountTrigger.of(3)).apply(lambda a, b: a)
    assert isinstance(result._transformation.operator.trigger, CountTrigger)


def test_what_has_to_come_before() -> None:
    env = environment()
    with pytest.raises(ValueError, match="where"):
        pairs(env).join(pairs(env)).equal_to(first)
    with pytest.raises(ValueError, match="call where, equal_to and window before apply"):
        pairs(env).join(pairs(env)).where(first).window(WINDOWS).apply(lambda a, b: a)
    with pytest.raises(ValueError, match="call where, equal_to and window before apply"):
        pairs(env).join(pairs(env)).where(first).equal_to(first).apply(lambda a, b: a)
    sessions: Any = EventTimeSessionWindows.with_gap(Time.seconds(5))
    pairing = pairs(env).join(pairs(env)).where(first).equal_to(first).window(sessions)
    with pytest.raises(TypeError, match="but CannotMerge cannot merge"):
        pairing.trigger(CannotMerge()).apply(lambda a, b: a)


def test_interval_joins() -> None:
    env = environment()
    left, right = pairs(env).key_by(first), pairs(env).key_by(lambda v: v[1])
    result = (
        left.interval_join(right)
        .between(Time.milliseconds(-5), Duration.of_seconds(1))
        .lower_bound_exclusive()
        .upper_bound_exclusive()
        .side_output_left_late_data(OutputTag("left", PAIR))
        .side_output_right_late_data(OutputTag("right", PAIR))
        .process(lambda a, b, ctx: [a], PAIR)
    )
    operator: Any = result._transformation.operator
    assert isinstance(operator, IntervalJoinOperator)
    assert (operator.lower, operator.upper) == (-4, 999)
    assert operator.late_tags == ("left", "right")
    assert result.get_name() == "Interval Join"
    assert [selector(("a", 7)) for selector in result._transformation.key_selectors] == ["a", 7]
    inclusive = left.interval_join(right).between(Time.milliseconds(-5), Time.milliseconds(5))
    plain: Any = inclusive.process(lambda a, b, ctx: [a])._transformation.operator
    assert (plain.lower, plain.upper, plain.late_tags) == (-5, 5, (None, None))
    with pytest.raises(ValueError, match="must be at most upper_bound"):
        left.interval_join(right).between(Time.milliseconds(5), Time.milliseconds(-5))
