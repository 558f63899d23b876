"""Every row once, wherever the driver of two sinks is killed: by the next run, or by `penstock recover`."""

import signal
import subprocess
import sys

import pytest

from penstock.engine.commands import main
from tests.engine.run.commits.journals import runs_in
from tests.engine.run.commits.two_sinks import ALL, BOTH, NOTHING, count_steps, hidden, run, sinks_of, visible


class KilledError(BaseException):
    """Ends a run as SIGKILL does: nothing changes the disk any more."""


def recover(*arguments):
    with pytest.raises(SystemExit) as ended:
        main.app(["recover", *map(str, arguments)], prog_name="penstock")
    return int(ended.value.code or 0)


def killed_run(folder, step):
    """Whether the run got as far as `step`."""

    def at_step(number):
        if number >= step:
            raise KilledError

    with pytest.MonkeyPatch.context() as patched:
        count_steps(at_step, patched.setattr)
        try:
            run(sinks_of(folder))
        except KilledError:
            return True
    return False


def steps_of_a_run(folder):
    with pytest.MonkeyPatch.context() as patched:
        taken = count_steps(lambda number: None, patched.setattr)
        run(sinks_of(folder))
    return taken[0]


@pytest.mark.slow
def test_the_next_run_brings_every_row_once(tmp_path):
    steps = steps_of_a_run(tmp_path / "whole")
    assert steps > 40
    assert visible(tmp_path / "whole") == BOTH
    assert hidden(tmp_path / "whole") == []
    acknowledged = []
    for step in range(2, steps + 1, 2):
        folder = tmp_path / str(step)
        assert killed_run(folder, step)
        is_known = any(runs_in(str(folder / "files")))
        run(sinks_of(folder))
        found = visible(folder)
        if found != BOTH:
            # killed while its journal was removed: nobody could know that the caller was not told
            assert (found, is_known) == ((sorted(ALL * 2),) * 2, False)
            acknowledged.append(step)
        left = [one for one in hidden(folder) if not one.endswith(".penstock-runs")]
        assert left == [], step
    assert all(step > steps * 0.8 for step in acknowledged)


@pytest.mark.slow
def test_a_recovery_that_is_killed_too(tmp_path):
    for first in (30, 36, 43, 52):
        for second in range(1, 14, 4):
            folder = tmp_path / f"{first} {second}"
            assert killed_run(folder, first)
            assert killed_run(folder, second)
            run(sinks_of(folder))
            assert visible(folder) == BOTH, (first, second)


@pytest.mark.slow
def test_recover_leaves_all_or_nothing(tmp_path, capsys):
    steps = steps_of_a_run(tmp_path / "whole")
    seen = []
    for step in range(1, steps + 1, 3):
        folder = tmp_path / str(step)
        folder.mkdir()
        killed_run(folder, step)
        before = visible(folder)
        assert recover("--dry-run", folder) == 0
        assert visible(folder) == before
        assert recover(folder) == 0
        found = visible(folder)
        assert found in (NOTHING, BOTH), step
        seen.append(found == BOTH)
        said = capsys.readouterr().out
        assert ("published" in said) == ("finished: everything is published" in said), step
        assert ("would be undone" in said) == ("undone: none of it is visible" in said), step
        if found == NOTHING:
            assert run(sinks_of(folder))
            assert visible(folder) == BOTH
    assert seen == sorted(seen)
    assert {True, False} == set(seen)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.6, 0.8])
def test_a_process_that_is_killed(tmp_path, part):
    step = int(part * steps_of_a_run(tmp_path / "whole"))
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.engine.run.commits.two_sinks", str(folder), str(step)]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    run(sinks_of(folder))
    assert visible(folder) == BOTH
