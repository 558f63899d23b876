"""Measure all planners on all suites, in turn, and write the results and their page."""

import json
import os
import platform
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from penstock.engine.machine.available_memory import memory_bytes
from penstock.engine.machine.operating_system import cores, processor_name
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.measure.bench.planners import PLANNERS, current_name, get_planner
from penstock.engine.measure.bench.prepare_inputs import (
    SUITES,
    Case,
    TimeBudget,
    Turn,
    compare_plans,
    measure_with,
    prepare_inputs,
    run_benchmarks,
    turns,
)
from penstock.engine.measure.bench.print_results import (
    FORMAT,
    answers,
    append_line,
    append_rows,
    best_planning,
    doubts,
    equality_lines,
    failed,
    figures,
    render_template,
    summarise,
    write_results,
)
from penstock.engine.measure.bench.run_child import planner_processes
from penstock.engine.output.figures import (
    MARKERS,
    axis_label,
    choose_scale,
    figure_bytes,
    figure_text,
    new_figure,
)
from penstock.engine.output.progress import Report
from penstock.engine.spark.find_java import find_java
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.installation import own_version
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.vocabulary import Layer

# Figures of a benchmark's pages, drawn by matplotlib: images embedded in the page.


_COLOURS = ("#b35900", "#0a6cbd", "#8a3ffc", "#198038")
_GOOD, _BAD = "#198038", "#b35900"
_BESIDE = 1.02
"""Factor of x that places single measurements beside their median."""

Point = tuple[float, float]


class Line(NamedTuple):
    """Points in order of x, in a colour of COLOURS; `dashed` lines have hollow marks.

    `measured` are the single measurements that points are medians of: small marks to the right of the points,
    with a bar through each point from its least to its largest measurement.
    """

    name: str
    colour: int
    points: Sequence[Point]
    dashed: bool = False
    measured: Sequence[Point] = ()


def draw_lines(title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> Markup:
    """Draw lines on logarithmic axes, without points that are not above zero; empty if none are left."""
    drawable = [line._replace(points=_shown(line.points), measured=_shown(line.measured)) for line in lines]
    drawable = [line for line in drawable if line.points]
    if not drawable:
        return Markup()

    def draw(axes: Any) -> None:
        for line in drawable:
            colour = _COLOURS[line.colour % len(_COLOURS)]
            axes.plot(
                *zip(*line.points, strict=True),
                color=colour,
                label=figure_text(line.name),
                linestyle="--" if line.dashed else "-",
                marker=MARKERS[line.colour % len(MARKERS)],
                markerfacecolor="none" if line.dashed else colour,
                markersize=4.5,
                linewidth=1.0 if line.dashed else 1.6,
            )
            for x, values in _by_x(line.measured).items():
                axes.vlines(x, min(values), max(values), color=colour, linewidth=1)
                axes.plot([x * _BESIDE] * len(values), values, ".", color=colour, markersize=3, alpha=0.7)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.legend(frameon=False, fontsize="small")

    return _image(title, x_label, y_label, (5.2, 3.4), draw)


def draw_differences(entry: Mapping[str, Any]) -> Markup:
    """Draw bars of the differences of a metric, from compare_quality; the better side is green."""
    counts, edges = entry["bars"]["counts"], entry["bars"]["edges"]

    def draw(axes: Any) -> None:
        middles = [(low + high) / 2 for low, high in pairwise(edges)]
        better = [(middle > 0) == (entry["better_is"] == "more") for middle in middles]
        widths = [0.9 * (high - low) for low, high in pairwise(edges)]
        axes.bar(middles, counts, widths, color=[_GOOD if good else _BAD for good in better])
        choose_scale(axes.set_yscale, [count for count in counts if count])
        if edges[0] < 0 < edges[-1]:
            axes.axvline(0, color="#59636e", linewidth=0.8)

    name = entry["metric"]
    return _image(name, f"difference of {axis_label(name)}", "topologies", (3.4, 2.2), draw)


def _image(
    title: str, x_label: str, y_label: str, size: tuple[float, float], draw: Callable[[Any], None]
) -> Markup:
    """Return the image, or a sentence in its place if matplotlib is not installed."""
    try:
        figure = new_figure(*size)
    except ConfigurationError as error:
        return Markup("<p>{}: {}</p>").format(error.message, error.hint)
    axes = figure.subplots()
    draw(axes)
    axes.set_title(figure_text(title), fontsize="medium")
    axes.set_xlabel(figure_text(x_label))
    axes.set_ylabel(figure_text(y_label))
    axes.grid(alpha=0.3)
    data = b64encode(figure_bytes(figure, "svg")).decode()
    return Markup('<img alt="{}" src="data:image/svg+xml;base64,{}"/>').format(escape(title), data)


def _shown(points: Sequence[Point]) -> list[Point]:
    """Return the points that a logarithmic axis can show."""
    return [point for point in points if point[0] > 0 and point[1] > 0]


def _by_x(points: Sequence[Point]) -> dict[float, list[float]]:
    ys: dict[float, list[float]] = {}
    for x, y in points:
        ys.setdefault(x, []).append(y)
    return ys


# Machine and versions of a benchmark.


PACKAGES = ("pyspark", "delta-spark", "polars", "pyarrow", "numpy", "numba")
FLINK_VERSION = "2.3.0"


def describe_machine() -> dict[str, Any]:
    """Return platform, processor, cores, memory in bytes, and the load averages of 1, 5 and 15 minutes."""
    return {
        "platform": platform.platform(),
        "processor": processor_name(),
        "cores": cores(),
        "memory_bytes": memory_bytes(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def describe_versions(with_flink: bool) -> dict[str, str]:
    """Return versions of Python, Java, Flink (if measured) and the packages that planners use."""
    versions = {"python": platform.python_version(), "penstock": own_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    try:
        versions["java"] = find_java().version
    except ConfigurationError:
        versions["java"] = "none"
    return versions | ({"flink": FLINK_VERSION} if with_flink else {})


OnRecord = Callable[[Mapping[str, Any], float], None]
"""Called with each record as it is measured, and with the predicted remaining seconds."""


def stages(cases: Sequence[Case], planners: Sequence[str], repeat: int) -> int:
    """Return the approximate number of stages that measure_suites reports."""
    suites = {case.suite.name for case in cases}
    return 1 + len(cases) * len(planners) * repeat + (len(suites) if len(planners) > 1 else 0)


def measure_suites(
    cases: Sequence[Case],
    planners: Sequence[str],
    unavailable: Mapping[str, str],
    settings: Mapping[str, Any],
    out: Path,
    job_defaults: JobDefaults,
    report: Report,
    *,
    command: str,
    resume: bool = False,
    on_record: OnRecord = lambda record, seconds_left: None,
) -> dict[str, Any]:
    """Measure, write results into `out` after each measurement, and return them.

    `settings`: until, repeat, repeat_in_process, timeout_seconds, options, and budget_seconds (None: all
    turns are measured; else as many as fit, small sizes and first repetitions first). `unavailable` maps
    other planners to the reasons why they cannot run. Raises the errors of preparing inputs, and of an
    unreadable earlier run.
    """
    results: dict[str, Any] = {
        "format": FORMAT,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "command": command,
        "machine": describe_machine(),
        "versions": describe_versions("flink" in planners),
        **settings,
        "suites": [[case.suite.name, case.size] for case in cases],
        "planners": list(planners),
        "includes": {name: get_planner(name).includes for name in planners},
        "unavailable": dict(unavailable),
        "equality": [],
    }
    layer, timeout, seconds = (
        Layer(settings["until"]),
        settings["timeout_seconds"],
        settings["budget_seconds"],
    )
    every = list(turns(cases, planners, settings["repeat"]))
    if seconds is not None:
        # planners that start a session come last of each size: others have figures even on a slow machine
        every.sort(key=lambda turn: (turn.repetition, turn.case.size, get_planner(turn.planner).reused))
    flink_planners = [name for name in planners if name in PLANNERS]  # custom planners make other plans
    to_compare = flink_planners if len(flink_planners) > 1 else []
    records = read_earlier_records(out, results) if resume else []
    todo = remaining_turns(every, records)
    left_out: list[Turn] = []
    budget = TimeBudget(seconds, every, compares=bool(to_compare))

    def write_measurements() -> None:
        results.update(summary=summarise(records), measurements=records, turns=len(every) - len(left_out))
        results.update(answers=answers(results["summary"]), doubts=doubts(results))
        write_results(out, results)
        write_page(out, results)

    with_lines = any(get_planner(name).reads_lines for name in planners)
    inputs = prepare_inputs(cases, out / "inputs", with_lines, report, job_defaults)
    if resume:
        remove_incomplete_line(out)
    else:  # earlier measurements are kept until there is something to measure
        start_results(out, results)
    began = monotonic()

    def has_time_for(turn: Turn) -> bool:
        nonlocal began
        began = monotonic()
        if budget.has_time_for(turn):
            return True
        left_out.append(turn)
        return False

    try:
        with planner_processes(timeout) as (ask, begin):
            measure = measure_with(ask, todo, layer, settings["repeat_in_process"])
            for done, (turn, record) in enumerate(
                run_benchmarks(todo, inputs, measure, report, has_time_for), 1
            ):
                budget.took(turn, monotonic() - began)
                append_line(out, record)
                append_rows(out, results, [record])
                records.append(record)
                write_measurements()
                on_record(record, budget.left(todo[done + len(left_out) :]))
            results["left_out"] = len(left_out)
            if to_compare:
                results["equality"] = compare_plans(inputs, to_compare, layer, begin, report)
    finally:
        write_measurements()
    return results


# Measurements of an earlier run of the same benchmark, stopped or finished.


SETTINGS_FILE = "settings.json"
RECORDS_FILE = "results.jsonl"
SAME = ("suites", "planners", "until", "repeat_in_process", "timeout_seconds", "options", "versions")
"""Settings that must be equal for measurements of two runs to be combined; repetitions may differ."""


def start_results(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of a new benchmark, and delete earlier measurements."""
    for name, text in ((RECORDS_FILE, ""), (SETTINGS_FILE, f"{json.dumps(dict(settings), indent=1)}\n")):
        with replace_file(folder / name) as file:
            file.write(text.encode())


def read_earlier_records(folder: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read the records of results.jsonl in `folder`, without an incomplete last line.

    Raises InputError if there is no earlier run, and ConfigurationError if it measured something else.
    """
    try:
        before = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
        settings = json.loads(json.dumps(dict(settings)))
        lines = (folder / RECORDS_FILE).read_bytes().split(b"\n")[:-1]
        records = [json.loads(line) for line in lines]
        before["planners"] = list(map(current_name, before["planners"]))
        records = [{**record, "planner": current_name(record["planner"])} for record in records]
        differing = [key for key in SAME if before[key] != settings[key]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"--resume: {folder} holds no benchmark to continue: {error}", "leave --resume out"
        ) from error
    if differing:
        differences = "; ".join(f"{key}: {before[key]} then, {settings[key]} now" for key in differing)
        raise ConfigurationError(
            f"--resume: {folder} was measured with other settings: {differences}",
            "give the same options again, or leave --resume out",
        )
    return records


def remaining_turns(turns: Sequence[Turn], records: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """Return the turns without a record."""
    done = {(r["suite"], r["size"], r["planner"], r["repetition"]) for r in records}
    return [t for t in turns if (t.case.suite.name, t.case.size, t.planner, t.repetition) not in done]


def remove_incomplete_line(folder: Path) -> None:
    """Remove an incomplete last line, so that the next record begins a line."""
    path = folder / RECORDS_FILE
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        with replace_file(path) as file:
            file.write(text[: text.rfind(b"\n") + 1])


# Page of a benchmark: one HTML file that opens without a network.


OPERATORS = "operators"
PHASES = ("read", "stream_graph", "job_graph", "execution_graph", "slots", "hand_over", "other")


def write_page(folder: Path, results: Mapping[str, Any]) -> None:
    """Write index.html into `folder`."""
    with replace_file(folder / "index.html") as file:
        file.write(render_page(results).encode())


def render_page(results: Mapping[str, Any]) -> str:
    """Render the page of the results in results.json."""
    summary = results["summary"]
    styles = {planner: place for place, planner in enumerate(results["planners"])}
    return render_template(
        "page.html.j2",
        results=results,
        colours=_COLOURS,
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
        planner_rows = sorted(
            (r for r in rows if r["planner"] == planner), key=lambda row: int(row["operators"])
        )
        cold = [(r["operators"], r["cold"]["planning"]) for r in planner_rows if r["cold"] and r["warm"]]
        time_lines.append(Line(f"{planner}, cold", style, cold, dashed=True))
        best = [(r["operators"], best_planning(r) or 0) for r in planner_rows]
        points = [
            (r["operators"], point) for r in planner_rows if len(r["points"]) > 1 for point in r["points"]
        ]
        time_lines.append(Line(planner, style, best, measured=points))
        peaks = [
            (r["operators"], (r["peak_memory_bytes"] or 0) / 2**30) for r in planner_rows if best_planning(r)
        ]
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
    seconds_by_phase = {**times, **times["layers"]}
    return [
        "-" if seconds_by_phase.get(phase) is None else f"{seconds_by_phase[phase]:,.3f}" for phase in PHASES
    ]


def _failures(measurements: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per (suite, operators, planner, error, message), with its number of occurrences."""
    counted: dict[tuple[str, int, str, str, str], int] = {}
    for record in measurements:
        if record["failure"]:
            failure = (record["failure"]["error"], record["failure"]["message"])
            key = (record["suite"], record["operators"], record["planner"], *failure)
            counted[key] = counted.get(key, 0) + 1
    names = ("suite", "operators", "planner", "error", "message")
    return [{**dict(zip(names, key, strict=True)), "times": times} for key, times in counted.items()]
