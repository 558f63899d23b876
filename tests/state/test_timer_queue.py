"""Timers against a plain list that is searched for the first one each time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.state.timer_queue import TimerQueue

TIMES = st.integers(-5, 12)
NAMES = st.sampled_from("abc")
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "remove"]), TIMES, NAMES), max_size=3)


class Plain:
    """Timers as a list in order of registration."""

    def __init__(self):
        self.timers = []

    def add(self, time, name):
        if (time, name) not in self.timers:
            self.timers.append((time, name))

    def remove(self, time, name):
        if (time, name) in self.timers:
            self.timers.remove((time, name))

    def due(self, limit):
        while first := min(
            (timer for timer in self.timers if timer[0] <= limit), key=lambda t: t[0], default=None
        ):
            self.timers.remove(first)
            yield first


def change(queue, changes):
    for what, time, name in changes:
        getattr(queue, what)(time, name)


@given(
    rounds=st.lists(st.tuples(CHANGES, TIMES, st.booleans()), max_size=6),
    meanwhile=st.lists(CHANGES, max_size=12),
    keep=st.integers(0, 4),
)
def test_fires_as_a_plain_list_does(rounds, meanwhile, keep):
    """Also with changes between two timers of the same round, and with the later timers on disk."""

    def fire(queue):
        left = list(meanwhile)
        for changes, limit, spill in [*rounds, ([], 100, False)]:
            change(queue, changes)
            if spill and isinstance(queue, TimerQueue):
                queue.spill(keep)
            for timer in queue.due(limit):
                yield timer
                if left:
                    change(queue, left.pop())
            yield limit

    assert list(fire(TimerQueue())) == list(fire(Plain()))


def test_prepare_sees_every_entry_before_it_fires():
    queue = TimerQueue()
    told: set[object] = set()
    for number in range(5000):
        queue.add(number % 7 if number % 2 else number, number)
    for _, entry in queue.due(10_000, told.update):
        assert entry in told


def test_next_time_counts_timers_on_disk():
    queue = TimerQueue()
    assert queue.next_time() is None
    queue.add(7, "a")
    queue.add(5, "b")
    queue.spill(0)
    assert queue.next_time() == 5
    assert queue.count == 0
    assert list(queue.due(6)) == [(5, "b")]
    queue.remove(7, "a")
    assert list(queue.due(8)) == []
    assert queue.next_time() is None


def test_times_are_64_bit_integers():
    queue = TimerQueue()
    with pytest.raises(TypeError):
        queue.add(1.5, "a")  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        queue.add(2**63, "a")


def test_deleting_from_many_timers_of_one_time():
    queue = TimerQueue()
    for number in range(3000):
        queue.add(1, number)
    fired = []
    for _, number in queue.due(1):
        fired.append(number)
        queue.remove(1, number + 1)
        if number < 3000:
            queue.add(0, number + 10_000)
    assert fired[:4] == [0, 10_000, 2, 10_002]
    assert len(fired) == 3000
