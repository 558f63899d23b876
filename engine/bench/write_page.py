"""The page of a benchmark: one HTML file that opens without a network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.engine.bench.draw_figures import COLOURS, Line, draw_lines
from penstock.engine.bench.print_results import equality_lines, failed, figures
from penstock.engine.bench.render_template import render_template
from penstock.engine.bench.suites import SUITES
from penstock.engine.bench.summarise import best_planning
from penstock.engine.machine.replace_file import replace_file

OPERATORS = "operators"
PHASES = ("read", "stream_graph", "job_graph", "execution_graph", "slots", "hand_over", "other")


def write_page(folder: Path, results: Mapping[str, Any]) -> None:
    """index.html in `folder`."""
    with replace_file(folder / "index.html") as file:
        file.write(render_page(results).encode())


def render_page(results: Mapping[str, Any]) -> str:
    """The page of what write_results.write_results writes."""
    summary = results["summary"]
    styles = {planner: place for place, planner in enumerate(results["planners"])}
    return render_template(
        "page.html.j2",
        results=results,
        colours=COLOURS,
        suites=[
            _suite(name, [row for row in summary if row["suite"] == name], styles)
            for name in dict.fromkeys(row["suite"] for row in summary)
        ],
        equality=equality_lines(results["equality"]),
        failures=_failures(results["measurements"]),
        memory=f"{results['machine']['memory_bytes'] / 2**30:.1f} GiB",
    )


def _suite(name: str, rows: Sequence[Mapping[str, Any]], styles: Mapping[str, int]) -> dict[str, Any]:
    time_lines, memory_lines = [], []
    for planner, style in styles.items():
        own = sorted((r for r in rows if r["planner"] == planner), key=lambda row: int(row["operators"]))
        cold = [(r["operators"], r["cold"]["planning"]) for r in own if r["cold"] and r["warm"]]
        time_lines.append(Line(f"{planner}, cold", style, cold, dashed=True))
        best = [(r["operators"], best_planning(r) or 0) for r in own]
        points = [(r["operators"], point) for r in own if len(r["points"]) > 1 for point in r["points"]]
        time_lines.append(Line(planner, style, best, measured=points))
        peaks = [(r["operators"], (r["peak_memory_bytes"] or 0) / 2**30) for r in own if best_planning(r)]
        memory_lines.append(Line(planner, style, peaks))
    return {
        "name": name,
        "about": SUITES[name].about if name in SUITES else "",
        "time": draw_lines(f"{name}: planning", OPERATORS, "planning (s)", time_lines),
        "memory": draw_lines(f"{name}: peak memory", OPERATORS, "peak memory (GiB)", memory_lines),
        "rows": [
            {"operators": f"{r['operators']:,}", "planner": r["planner"], "style": styles[r["planner"]],
             "figures": figures(r), "failed": failed(r)}
            for r in rows
        ],
        "phases": [
            {"operators": f"{r['operators']:,}", "planner": r["planner"], "style": styles[r["planner"]],
             "seconds": _phases(r["warm"] or r["cold"])}
            for r in rows
            if r["warm"] or r["cold"]
        ],
    }  # fmt: skip


def _phases(times: Mapping[str, Any]) -> list[str]:
    found = {**times, **times["layers"]}
    return ["-" if found.get(phase) is None else f"{found[phase]:,.3f}" for phase in PHASES]


def _failures(measurements: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry per (suite, operators, planner, error, message) with how often it was."""
    counted: dict[tuple[str, int, str, str, str], int] = {}
    for record in measurements:
        if record["failure"]:
            what = (record["failure"]["error"], record["failure"]["message"])
            key = (record["suite"], record["operators"], record["planner"], *what)
            counted[key] = counted.get(key, 0) + 1
    names = ("suite", "operators", "planner", "error", "message")
    return [{**dict(zip(names, key, strict=True)), "times": times} for key, times in counted.items()]
