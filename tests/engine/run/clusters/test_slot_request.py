"""Jobs share the slots of a session first come, first served, and none is lost when a client dies."""

import subprocess
import sys
import threading
from contextlib import ExitStack

import pyarrow as pa
import pytest

from penstock.engine.run.clusters.slot_request import (
    GroupSlots,
    SlotRequest,
    Supply,
    describe_waiting,
    fitting_parallelism,
    not_available,
    slot_request,
    ticket,
)

GROUPS = (GroupSlots("default", 4, "Map"), GroupSlots("wide", 6, "Window"))


def test_who_comes_first_is_served_first(tmp_path):
    with (
        ticket(tmp_path, "a", 2) as first,
        ticket(tmp_path, "b", 2) as second,
        ticket(tmp_path, "c", 1) as third,
    ):
        assert second.ask(2, 2).before == 1
        assert first.ask(2, 2).has_slots
        assert (second.ask(2, 2).before, second.ask(2, 2).taken) == (0, 2)
        # one that would fit does not overtake
        assert not third.ask(1, 3).has_slots
        assert third.ask(1, 3).before == 1


def test_slots_come_back_however_a_job_ends(tmp_path):
    def fail():
        with ticket(tmp_path, "a", 2) as one:
            assert one.ask(2, 2).has_slots
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with ticket(tmp_path, "b", 2) as other:
        assert other.ask(2, 2).has_slots


def test_a_killed_client_holds_no_slots(tmp_path):
    script = (
        "import sys, time, pathlib; from penstock.engine.run.clusters.slot_request import ticket\n"
        "with ticket(pathlib.Path(sys.argv[1]), 'dead', 2) as one:\n"
        "    print(one.ask(2, 2).has_slots, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"True\n"
        with ticket(tmp_path, "next", 2) as one:
            assert one.ask(2, 2).taken == 2
            client.kill()
            client.wait()
            assert one.ask(2, 2).has_slots
    assert [path.name for path in (tmp_path / "queue").iterdir()] == ["lock"]


def test_twenty_jobs_at_once_on_two_slots(tmp_path):
    """All finish, in the order in which they came, and at no time more than two have slots."""
    order, running, most, changed = [], set(), [0], threading.Condition()

    def run(number, own):
        while not own.ask(1, 2).has_slots:
            with changed:
                changed.wait(0.01)
        with changed:
            order.append(number)
            running.add(number)
            most[0] = max(most[0], len(running))

    with ExitStack() as stack:
        tickets = [ticket(tmp_path, f"job{number}", 1) for number in range(20)]
        own = [stack.enter_context(one) for one in tickets]
        threads = [threading.Thread(target=run, args=(number, one)) for number, one in enumerate(own)]
        for thread in threads:
            thread.start()
        for number, one in enumerate(tickets):
            threads[number].join(30)
            with changed:
                running.discard(number)
            one.__exit__(None, None, None)
            with changed:
                changed.notify_all()
        stack.pop_all()
    assert sorted(order) == list(range(20))
    assert all(abs(place - number) <= 1 for place, number in enumerate(order))
    assert most[0] <= 2


@pytest.mark.parametrize(
    ("slots", "fits"), [(1, 0), (2, 1), (3, 1), (4, 2), (8, 4), (9, 5), (10, 6), (99, 6)]
)
def test_the_parallelism_that_would_fit(slots, fits):
    assert fitting_parallelism(GROUPS, slots) == fits


def test_the_error_says_what_was_wanted_and_what_there_is():
    request = SlotRequest("id", "<script>", 10, GROUPS)
    supply = Supply("session 'mine'", 2, 1, 4, 3)
    said = str(not_available(request, supply, 5))
    assert "NoResourceAvailableException: Could not acquire the minimum required resources." in said
    assert "job '<script>'" in said
    assert (
        "It needs 10 slots (by slot sharing group: 'default' 4, 'wide' 6; most are set by group 'wide'"
        in said
    )
    assert "session 'mine' has 4 slots in 1 of 2 TaskManagers, 1 pending; 3 of the slots free" in said
    assert "a parallelism of 2 would fit" in said
    assert "2 slot sharing groups need a slot each" in str(not_available(request, Supply("x", 1, 1, 1, 1), 5))
    assert "wait until other jobs have ended" in str(not_available(request, Supply("x", 9, 9, 10, 0), 5))
    assert describe_waiting(request, supply, 1).endswith("; 1 job waits before it")


def test_a_batch_job_wants_one_slot():
    tables = {
        "job_vertices": pa.table({"vertex": [3, 7], "name": ["Map", "Window"]}),
        "slot_sharing_groups": pa.table({"slot_sharing_group": [0, 1], "name": ["default", "b"]}),
        "required_slots": pa.table({"slot_sharing_group": [0, 1], "slots": [4, 6], "largest_vertex": [3, 7]}),
    }
    streaming = slot_request("id", "job", tables, batch=False)
    assert (streaming.slots, streaming.groups[1]) == (10, GroupSlots("b", 6, "Window"))
    assert slot_request("id", "job", tables, batch=True).slots == 1
