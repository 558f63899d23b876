"""Parts of the work in polars' own threads."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from penstock.plans.planners.plan_in_parts import interrupt_parts, one_after_the_other, side_by_side


def _double(part: int) -> int:
    return int(pl.DataFrame({"a": [part], "b": [part]}).select(pl.col("a") + pl.col("b"), c="b")["a"][0])


@pytest.mark.parametrize("parts", [0, 1, 2, 50])
def test_what_is_made_of_the_parts_is_in_their_order(parts: int) -> None:
    assert side_by_side(_double, range(parts)) == [2 * part for part in range(parts)]


@pytest.mark.parametrize("parts", [1, 20])
def test_parts_are_worked_on_in_threads_of_polars(parts: int) -> None:
    """Were they not, small jobs would take a half longer: this fails if polars stops dividing selects."""
    own_threads = {thread.native_id for thread in threading.enumerate()}
    seen = set(side_by_side(lambda part: threading.get_native_id(), range(parts)))
    assert not seen & own_threads
    assert len(seen) <= pl.thread_pool_size()


def test_parts_may_have_parts_and_any_thread_may_ask() -> None:
    def nested(part: int) -> list[int]:
        return side_by_side(_double, range(part))

    expected = [[2 * part for part in range(parts)] for parts in range(6)]
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(side_by_side, nested, range(6)) for _ in range(6)]
        assert [answer.result() for answer in asked] == [expected] * 6
    assert side_by_side(nested, range(6)) == expected


def test_after_an_error_no_other_part_is_begun() -> None:
    begun = []

    def fail(part: int) -> None:
        begun.append(part)
        if part == 3:
            raise ValueError("part 3")
        time.sleep(0.001)

    with pytest.raises(ValueError, match="part 3"):
        side_by_side(fail, range(10_000))
    assert len(begun) < 100


def test_ctrl_c_ends_it_with_the_parts_that_are_begun() -> None:
    begun = []

    def press(part: int) -> None:
        begun.append(part)
        if part == 3:
            os.kill(os.getpid(), signal.SIGINT)
        _double(part)
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        side_by_side(press, range(1_000))
    assert len(begun) < 500


def test_a_part_can_tell_that_ctrl_c_was_pressed() -> None:
    given_up = threading.Event()
    steps: list[int] = []

    def press(part: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while not given_up.wait(0.01) and len(steps) < 500:
            steps.append(_double(part))

    with pytest.raises(KeyboardInterrupt):
        side_by_side(press, [0], given_up)
    assert len(steps) < 500


class _Loop:
    """Work that goes through the rows of a part, and does not look up; it ends by itself after long."""

    def __init__(self) -> None:
        self.begun, self.rows, self.ended = threading.Event(), 0, list[type[BaseException]]()

    def __call__(self, part: int) -> int:
        if part:
            self.begun.set()
        try:
            for _ in range(10_000 if part else 0):
                self.rows += 1
                time.sleep(0.003)
        except BaseException as error:
            self.ended.append(type(error))
            raise
        return part


@pytest.mark.parametrize("by", ["Ctrl-C", "the end of the process"])
def test_a_long_loop_of_a_part_ends_when_nobody_waits_for_it(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM while 200,000 wrong transformations of one topology were read was answered after 20 s."""
    monkeypatch.setattr("penstock.plans.planners.plan_in_parts.pl.thread_pool_size", lambda: 2)
    loop = _Loop()

    def parts() -> Iterator[int]:
        yield from (0, 0, 1)
        loop.begun.wait(10)
        if by == "Ctrl-C":
            raise KeyboardInterrupt
        yield 1

    reading = one_after_the_other(loop, parts())
    assert next(reading) == 0
    if by == "Ctrl-C":
        with pytest.raises(KeyboardInterrupt):
            list(reading)
    else:  # what reads them was left at a signal, and its frames are kept by the exception
        loop.begun.wait(10)
        interrupt_parts()
        with pytest.raises(KeyboardInterrupt):
            list(reading)
    assert set(loop.ended) == {KeyboardInterrupt}
    assert loop.rows < 5_000


def test_the_parts_of_other_callers_go_on() -> None:
    loop = _Loop()
    others = one_after_the_other(loop, iter([0, 0, 0, 0]))
    assert next(others) == 0
    with pytest.raises(ZeroDivisionError):
        list(one_after_the_other(lambda part: 1 // part, [1, 0]))
    assert list(others) == [0, 0, 0]
