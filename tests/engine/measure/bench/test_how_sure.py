"""Intervals of medians, answers in words, and doubts about them."""

from math import comb

import numpy as np
import pytest

from penstock.engine.measure.bench.print_results import answers, doubts, interval_of_median, summarise
from tests.engine.measure.bench.made_up import record, results


def test_few_values_give_all_of_their_range_with_what_confidence_that_has():
    assert interval_of_median([]) is None
    assert interval_of_median([7]) == (7, 7, 7, 0)
    assert interval_of_median([3, 1]) == (2, 1, 3, 0.5)
    assert interval_of_median([5, 1, 3]) == (3, 1, 5, 0.75)


@pytest.mark.parametrize("count", [6, 9, 20, 51])
def test_intervals_hold_the_median_as_often_as_they_say(count):
    drawn = np.random.default_rng(count).exponential(size=(4000, count))
    found = [interval_of_median(values) for values in drawn.tolist()]
    held = np.mean([one.low <= np.log(2) <= one.high for one in found if one is not None])
    (confidence,) = {one.confidence for one in found if one is not None}
    assert 0.95 <= confidence <= 1
    assert held == pytest.approx(confidence, abs=0.015)


def test_the_next_narrower_interval_would_not_do():
    one = interval_of_median(range(20))
    assert one is not None
    assert (one.low, one.high) == (5, 14)
    assert 1 - 2 * sum(comb(20, below) for below in range(7)) / 2**20 < 0.95


def repeated(planner, *seconds, **other):
    return [record(planner, one, repetition=turn, **other) for turn, one in enumerate(seconds)]


def test_ratios_are_of_planners_that_took_turns():
    """The machine was three times as slow in the second repetition, for both."""
    rows = summarise([*repeated("process", 1, 3, 1), *repeated("blocks", 4, 12, 5)])
    columnar = next(row for row in rows if row["planner"] == "process")
    assert (columnar["ratio"], columnar["ratio_to"]) == (4, "blocks")
    assert columnar["ratio_interval"] == [4, 5]
    assert (columnar["points"], columnar["spread"]) == ([1, 3, 1], 2)
    assert columnar["cpu_seconds"] == 3.5


def test_ratios_are_of_repetitions_that_both_ended():
    rows = summarise([*repeated("process", 1, 3, 2), *repeated("blocks", 4, 12)])
    columnar = next(row for row in rows if row["planner"] == "process")
    assert columnar["ratio_interval"] == [4, 4]


def test_the_answer_comes_in_a_sentence():
    rows = summarise(
        [
            *repeated("process", 1, 1.1, 1.2),
            *repeated("blocks", 4, 4, 4),
            *repeated("process", 9, size=100_000),
            *repeated("blocks", None, size=100_000),
        ]
    )
    assert answers(rows) == [
        "fleet, 100,000 operators: process plans them in 9.00 s; nothing to compare with."
    ]
    assert answers(rows[:2]) == [
        "fleet, 1,000 operators: process plans them in 1.10 s (1 to 1.2 s), "
        "3.64 times as fast as blocks (3.33 to 4)."
    ]


def test_what_lies_within_the_noise_is_no_winner():
    rows = summarise([*repeated("process", 1, 1.2, 1.4), *repeated("blocks", 1.3, 1.3, 1.5)])
    assert answers(rows)[0].endswith(" Within the noise of blocks: repeat more often (--repeat).")


def said(measurements, **other):
    return doubts(results(measurements, summarise(measurements)) | {"repeat": 3} | other)


def test_nothing_is_doubted_on_a_quiet_machine():
    assert said([*repeated("process", 1, 1.01, 1.02)]) == []


def test_what_speaks_against_figures_is_told():
    noisy = said(repeated("process", 1, 1.5, 1))
    assert noisy == [
        "noisy: repetitions of the same work lie far apart, as shares of their median: "
        "fleet 1,000 process 50%"
    ]
    assert said(repeated("process", 0.001, 0.009, 0.001)) == []  # too short to tell
    (others,) = said(repeated("process", 1, 1, 1, others_cores=0.7))
    assert others == "other load: other processes used 0.7 of 2 cores meanwhile"
    (stolen,) = said(repeated("process", 1, 1, 1, stolen_cores=0.4))
    assert "virtual machines" in stolen
    (once,) = said(repeated("process", 1), repeat=1)
    assert once.startswith("1 repetition cannot distinguish")
    (stopped,) = said(repeated("process", 1, 1), turns=9)
    assert stopped.startswith("stopped early: 2 of 9 measurements")
