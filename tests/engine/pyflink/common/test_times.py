from typing import Any

import pytest

from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.time import (
    AssignerWithPeriodicWatermarksWrapper,
    Duration,
    Instant,
    Time,
    TimestampAssigner,
    WatermarkAlignment,
    WatermarkStrategy,
)


def test_durations():
    same = [
        Duration.of_days(1),
        Duration.of_hours(24),
        Duration.of_minutes(1440),
        Duration.of_seconds(86_400),
        Duration.of_millis(86_400_000),
        Duration.of_nanos(86_400 * 10**9),
    ]
    assert all(one == same[0] for one in same)
    assert len(set(same)) == 1
    assert same[0].milliseconds == 86_400_000
    assert Duration.of_nanos(1_999_999).milliseconds == 1
    assert Duration.of_seconds(1) != Time.seconds(1)


@pytest.mark.parametrize("amount", [1.5, "1", None, True])
def test_durations_of_no_whole_units(amount):
    with pytest.raises(TypeError, match="whole units"):
        Duration.of_seconds(amount)


def test_durations_have_64_bits_of_seconds():
    with pytest.raises(OverflowError, match="64 bits"):
        Duration.of_days(2**62)


def test_times():
    assert Time.days(1) == Time.hours(24) == Time.minutes(1440) == Time.seconds(86_400)
    assert Time.seconds(5).to_milliseconds() == 5000
    assert str(Time.milliseconds(7)) == "7 ms"
    assert Time.seconds(1) != Time.seconds(2)
    assert Time.seconds(1) != 1000
    assert len({Time.seconds(1), Time.milliseconds(1000)}) == 1


@pytest.mark.parametrize("millis", [0, 1, 1500, -1, -1500, 2**40])
def test_instants_of_milliseconds(millis):
    instant = Instant.of_epoch_milli(millis)
    assert instant.to_epoch_milli() == millis
    assert 0 <= instant.nanos < 10**9


def test_instants():
    assert repr(Instant(1, 2)) == "Instant<1, 2>"
    assert Instant(1, 2) == Instant(1, 2)
    assert Instant(1, 2) != Instant(1, 3)
    assert len({Instant(1, 2), Instant(1, 2)}) == 1


NO_DURATION: Any = 5


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def test_watermark_strategies():
    assert WatermarkStrategy.no_watermarks().out_of_orderness_milliseconds is None
    assert WatermarkStrategy.for_monotonous_timestamps().out_of_orderness_milliseconds == 0
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    assert bounded.out_of_orderness_milliseconds == 5000
    assigner = Second()
    assert bounded.with_timestamp_assigner(assigner) is bounded
    idle = bounded.with_idleness(Duration.of_minutes(1))
    assert (idle.timestamp_assigner, idle.out_of_orderness_milliseconds) == (assigner, 5000)
    assert (idle.idle_timeout_milliseconds, bounded.idle_timeout_milliseconds) == (60_000, None)
    aligned = idle.with_watermark_alignment("group", Duration.of_seconds(20))
    assert aligned.alignment == WatermarkAlignment("group", 20_000, 1000)
    assert (aligned.idle_timeout_milliseconds, aligned.timestamp_assigner) == (60_000, assigner)


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(-1)), ValueError),
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(NO_DURATION), TypeError),
        (lambda: WatermarkStrategy.no_watermarks().with_idleness(Duration.of_seconds(0)), ValueError),
        (lambda: WatermarkStrategy.no_watermarks().with_idleness(NO_DURATION), TypeError),
        (
            lambda: WatermarkStrategy.no_watermarks().with_watermark_alignment("g", Duration.of_millis(-1)),
            ValueError,
        ),
        (
            lambda: WatermarkStrategy.no_watermarks().with_watermark_alignment(
                "g", Duration.of_millis(1), Duration.of_millis(0)
            ),
            ValueError,
        ),
        (lambda: AssignerWithPeriodicWatermarksWrapper(object()), NoJavaError),
        (TimestampAssigner, TypeError),
    ],
)
def test_watermark_strategies_that_cannot_be(made, error):
    with pytest.raises(error):
        made()


@pytest.mark.parametrize("amount", ["5", None, True, [1], float("nan"), b"1"])
@pytest.mark.parametrize("unit", ["milliseconds", "seconds", "minutes", "hours", "days"])
def test_a_time_is_made_of_a_number(unit: str, amount: Any) -> None:
    with pytest.raises(TypeError, match="a Time must be made of a number, got "):
        getattr(Time, unit)(amount)


def test_a_time_is_whole_milliseconds() -> None:
    assert Time.seconds(1.5) == Time.milliseconds(1500)
    with pytest.raises(ValueError, match=r"whole milliseconds, got 1\.5"):
        Time.milliseconds(1.5)
    for wrong in ("5", None, 1.0):
        with pytest.raises(TypeError, match="a Duration must be made of whole units"):
            Duration(wrong)  # type: ignore[arg-type]
