"""Timers against a plain list that is searched for the first one each time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.state.timer_queue import TimerQueue

TIMES = st.integers(-5, 12)
NAMES = st.sampled_from("abc")
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "remove"]), TIMES, NAMES), max_size=3)


class Plain:
    """Timers as a list in order of registration, fired in rounds."""

    def __init__(self):
        self.timers = []

    def add(self, time, name):
        if (time, name) not in self.timers:
            self.timers.append((time, name))

    def remove(self, time, name):
        if (time, name) in self.timers:
            self.timers.remove((time, name))

    def due(self, limit):
        while now := sorted(
            (timer for timer in self.timers if timer[0] <= limit), key=lambda timer: timer[0]
        ):
            self.timers = [timer for timer in self.timers if timer not in now]
            yield from now


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


def test_what_is_registered_and_deleted_meanwhile_is_for_the_next_round():
    queue = TimerQueue()
    for number in range(3000):
        queue.add(1, number)
    fired: list[tuple[int, object]] = []
    for timer in queue.due(1):
        fired.append(timer)
        queue.remove(1, 2000)
        if timer == (1, 1):
            queue.add(1, 0)
            queue.add(0, "early")
            queue.add(0, "gone")
            queue.remove(0, "gone")
            queue.add(2, "late")
    assert fired == [(1, number) for number in range(3000)] + [(0, "early"), (1, 0)]
    assert queue.next_time() == 2
    assert queue.count == 1


def test_at_last_everything_fires_but_what_is_deleted():
    queue = TimerQueue()
    for time, name in ((5, "b"), (5, "a"), (3, "c"), (9, "d"), (9, "e")):
        queue.add(time, name)
    queue.accepting = False
    fired = []
    for timer in queue.due_at_last():
        fired.append(timer)
        queue.add(1, "new")
        queue.remove(5, "a")
        queue.remove(9, "d")
    assert fired == [(3, "c"), (5, "b"), (9, "e")]
    assert queue.next_time() is None
    assert queue.count == 0


def test_a_postponed_timer_fires_in_its_place():
    queue = TimerQueue()
    for time, entry in ((10, "a"), (20, "b"), (25, "c"), (30, "d")):
        queue.add(time, entry)
    fired = []
    for time, entry in queue.due(26):
        fired.append((time, entry))
        if (time, entry) == (10, "a"):
            queue.postpone(22, "a")
        elif (time, entry) == (22, "a"):
            queue.postpone(26, "a")
        elif (time, entry) == (20, "b"):
            queue.postpone(40, "b")
    assert fired == [(10, "a"), (20, "b"), (22, "a"), (25, "c"), (26, "a")]
    assert list(queue.due(100)) == [(30, "d"), (40, "b")]
