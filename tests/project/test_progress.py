"""Progress is for a terminal only."""

import io

from rich.console import Console

from engine.output.progress import progress


def test_silent_when_piped(capfd):
    with progress(2) as report:
        report("read_topologies")
        report("write_store")
    assert capfd.readouterr() == ("", "")


def test_terminal_shows_stages_and_the_seconds_of_long_ones(monkeypatch):
    now = iter([10.0, 12.5, 12.5, 12.6])
    monkeypatch.setattr("engine.output.progress.time.monotonic", lambda: next(now))
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None, get_time=lambda: 0.0)
    with progress(2, console=console) as report:
        report("read_topologies")
        report("write_store")
    shown = out.getvalue()
    assert "read_topologies 2.5 s" in shown
    assert "write_store 0.1 s" not in shown
    assert "2/2" in shown
