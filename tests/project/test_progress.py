"""Progress is for a terminal only."""

import io

from rich.console import Console

from penstock.engine.output.progress import progress


def test_silent_when_piped(capfd):
    with progress(2) as report:
        report("read_topologies")
        report("write_store")
    assert capfd.readouterr() == ("", "")


def test_terminal_shows_stages_and_the_seconds_of_long_ones(monkeypatch):
    now = iter([10.0, 12.5, 12.5, 12.6])
    monkeypatch.setattr("penstock.engine.output.progress.time.monotonic", lambda: next(now))
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None, get_time=lambda: 0.0)
    with progress(2, console=console) as report:
        report("read_topologies")
        report("write_store")
    shown = out.getvalue()
    assert "read_topologies 2.5 s" in shown
    assert "write_store 0.1 s" not in shown
    assert "2/2" in shown


def test_what_is_counted_has_a_bar_and_a_remaining_time(monkeypatch):
    now = [10.0]
    monkeypatch.setattr("penstock.engine.output.progress.time.monotonic", lambda: now[0])
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)
    with progress(40, console=console) as report:
        report("plan and write topologies")
        (live,) = console._live_stack

        def shown(done: int, about: int) -> str:
            report.count(done, about, "topologies")
            before = len(out.getvalue())
            live.refresh()
            return out.getvalue()[before:]

        assert "0 of ~1,000,000 topologies" in shown(0, 1_000_000)
        now[0] = 20.0
        assert "250,000 of ~1,000,000 topologies, 30 s left" in shown(250_000, 1_000_000)
        assert "1,100,000 topologies" in shown(1_100_000, 1_000_000)
        assert "7 topologies" in shown(7, 0)
        counted = len(out.getvalue())
        report("write the version")
    assert "/40" not in out.getvalue()[counted:]
