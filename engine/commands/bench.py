"""`penstock bench`: how fast planners are, and whether they agree."""

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.engine.bench.bench_configuration import hand_on
from penstock.engine.bench.planners import PLANNERS, why_missing
from penstock.engine.bench.suites import SUITES, Case, cases_of, each_once, find_suite
from penstock.engine.commands.bench_quality import compare_plans_of
from penstock.engine.commands.key_values import ConfigDir, Define, key_values
from penstock.engine.machine.hold_folder import hold_folder
from penstock.engine.machine.make_output_folder import make_output_folder
from penstock.engine.output.pieces import Styled
from penstock.engine.output.progress import progress
from penstock.engine.output.redaction import redact, redact_value, remember_secrets
from penstock.engine.output.say import say, say_beside_output
from penstock.engine.spark.spark_conf import spark_conf_dir_in_use, spark_settings
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.vocabulary import Layer

SLOWER_EXIT_CODE = 5
DEFAULT_SUITES = "fleet,layered"
DEFAULT_SIZES = "1000,10000,100000"
_SUITES = "; ".join(f"{suite.name}: {suite.about}" for suite in SUITES.values())


def command(
    suite: Annotated[
        list[str] | None,
        typer.Option(
            "--suite",
            metavar="NAME|FILE",
            help=f"What is planned; may be repeated, or several with commas. {_SUITES}. "
            f"FILE: your own topology lines. Default: {DEFAULT_SUITES}.",
        ),
    ] = None,
    planner: Annotated[
        list[str] | None,
        typer.Option(
            "--planner",
            metavar="NAME",
            help=f"{', '.join(PLANNERS)}; may be repeated, or several with commas. Default: all that are "
            "installed. With --quality: flink (its rules), or planners of your own (PACKAGE.MODULE:FUNCTION, "
            "entry points of the group penstock.planners), compared with the first.",
        ),
    ] = None,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="N,N,...", help="Operators of a suite; files have their own.")
    ] = DEFAULT_SIZES,
    until: Annotated[
        Layer, typer.Option("--until", metavar="LAYER", help=f"The last layer: {', '.join(list(Layer)[1:])}.")
    ] = Layer.SLOTS,
    repeat: Annotated[
        int,
        typer.Option(
            "--repeat",
            min=1,
            metavar="N",
            help="Processes for each suite, size and planner; planners on Spark keep theirs.",
        ),
    ] = 3,
    repeat_in_process: Annotated[
        int,
        typer.Option(
            "--repeat-in-process",
            min=0,
            metavar="N",
            help="Warm plans in each process, after the cold one: as many as take 10 seconds, or one. "
            "For planners on Spark: in every repetition except the first, which is a cold plan.",
        ),
    ] = 3,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for results, their page, and the inputs.")
    ] = Path("penstock-bench"),
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="OLD.json",
            help="An older results.json: print ratios, and exit with 5 if a planner got slower by more than "
            "a quarter.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the benchmark in DIR, stopped or done: what it has measured is kept, and "
            "only the rest of the repetitions is measured (more of them with a larger --repeat).",
        ),
    ] = False,
    config_dir: ConfigDir = None,
    define: Define = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="S", help="Seconds that one process may take.")
    ] = 600,
    quality: Annotated[
        bool,
        typer.Option("--quality", help="Compare how good plans are, topology by topology."),
    ] = False,
    costs: Annotated[
        str | None,
        typer.Option(
            "--costs",
            metavar="COSTS",
            help="With --quality: what operators cost: a table (JSON lines, .csv, .parquet), a store with "
            "runs, drawn by hash, or all alike. Default: drawn.",
        ),
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            min=0.01,
            metavar="S",
            help="With --quality: seconds that a planner of your own may take for a batch.",
        ),
    ] = 60,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="With --quality: plan and measure in the workers of this Spark. Default: in this process.",
        ),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="With --quality: JSON instead of tables.")
    ] = False,
) -> None:
    """Measure planners on the same topologies, in turn, each in processes of its own (on Spark, one for all).

    DIR gets results.json, results.jsonl (as they come), the Delta table results (a run adds rows) and
    index.html, which are replaced after each process, so that a benchmark that is stopped keeps what it
    measured. A planner that fails or takes too long is a result. At the smallest size of each suite the
    planners' plans are compared.

    With --quality, plans are compared by what they need and sustain; DIR gets quality.json, quality.html and
    rows of the Delta table quality.
    """
    options = key_values(define, "-D")
    configuration = hand_on(config_dir, options)
    remember_secrets(spark_settings(spark_conf_dir_in_use()))  # that child processes start with
    suites = [find_suite(name) for name in _listed(suite or [DEFAULT_SUITES])]
    cases = cases_of(each_once(suites), _sizes(sizes))
    if quality:
        for option, is_given in (("--resume", resume), ("--compare", compare is not None)):
            if is_given:
                raise ConfigurationError(f"{option}: does not go with --quality")
        names = _listed(planner or [])
        make_output_folder(out)
        with hold_folder(out, "penstock bench"):
            compare_plans_of(names, cases, costs, time_limit, out, configuration, json_output, master)
        return
    for option, is_given in (("--costs", costs is not None), ("--master", master is not None)):
        if is_given:
            raise ConfigurationError(f"{option}: goes with --quality")
    if json_output:
        raise ConfigurationError("--json: goes with --quality")
    from penstock.engine.bench.write_results import read_results

    if until is Layer.TOPOLOGY:
        raise ConfigurationError("--until topology: found nothing to measure", "name a later layer")
    chosen, unavailable = _planners(_listed(planner or []))
    old = None if compare is None else read_results(compare)
    make_output_folder(out)
    settings = {
        "until": until.value,
        "repeat": repeat,
        "repeat_in_process": repeat_in_process,
        "timeout_seconds": timeout,
        "options": {key: redact_value(key, value) for key, value in options.items()},
    }
    with hold_folder(out, "penstock bench"):
        results = _run(cases, chosen, unavailable, settings, out, configuration.job_defaults, resume=resume)
    _report(results, old, out)


def _run(
    cases: list[Case],
    chosen: list[str],
    unavailable: dict[str, str],
    settings: dict[str, Any],
    out: Path,
    job_defaults: JobDefaults,
    *,
    resume: bool,
) -> dict[str, Any]:
    from penstock.engine.bench.describe_machine import describe_machine, describe_versions
    from penstock.engine.bench.how_sure import answers, doubts
    from penstock.engine.bench.measured_before import (
        begin_anew,
        cut_off_last_line,
        measured_before,
        still_to_do,
    )
    from penstock.engine.bench.planner_processes import planner_processes
    from penstock.engine.bench.prepare_inputs import prepare_inputs
    from penstock.engine.bench.run_benchmarks import compare_plans, measure_with, run_benchmarks, turns
    from penstock.engine.bench.summarise import summarise
    from penstock.engine.bench.write_page import write_page
    from penstock.engine.bench.write_results import FORMAT, append_line, append_rows, write_results

    results: dict[str, Any] = {
        "format": FORMAT,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "command": redact(shlex.join(["penstock", *sys.argv[1:]])),
        "machine": describe_machine(),
        "versions": describe_versions("flink" in chosen),
        **settings,
        "suites": [[case.suite.name, case.size] for case in cases],
        "planners": chosen,
        "includes": {name: PLANNERS[name].includes for name in chosen},
        "unavailable": unavailable,
        "equality": [],
    }
    layer, timeout = Layer(settings["until"]), settings["timeout_seconds"]
    every = list(turns(cases, chosen, settings["repeat"]))
    suites = {case.suite.name for case in cases}
    to_compare = chosen if len(chosen) > 1 else []
    records = measured_before(out, results) if resume else []
    todo = still_to_do(every, records)

    def write_what_there_is() -> None:
        results.update(summary=summarise(records), measurements=records, turns=len(every))
        results.update(answers=answers(results["summary"]), doubts=doubts(results))
        write_results(out, results)
        write_page(out, results)

    with progress(1 + len(todo) + (len(suites) if to_compare else 0)) as report:
        with_lines = any(PLANNERS[name].reads_lines for name in chosen)
        inputs = prepare_inputs(cases, out / "inputs", with_lines, report, job_defaults)
        if resume:
            cut_off_last_line(out)
        else:  # what was measured before is kept until there is something to measure
            begin_anew(out, results)
        try:
            with planner_processes(timeout) as (ask, begin):
                measure = measure_with(ask, todo, layer, settings["repeat_in_process"])
                for record in run_benchmarks(todo, inputs, measure, report):
                    append_line(out, record)
                    append_rows(out, results, [record])
                    records.append(record)
                    write_what_there_is()
                if to_compare:
                    results["equality"] = compare_plans(inputs, to_compare, layer, begin, report)
        finally:
            write_what_there_is()
    return results


def _report(results: dict[str, Any], old: dict[str, Any] | None, out: Path) -> None:
    from penstock.engine.bench.print_results import print_comparison, print_equality, print_results
    from penstock.engine.bench.summarise import compare_results

    print_results(results["summary"])
    for line in results["answers"]:
        say(line)
    for line in results["doubts"]:
        say_beside_output(Styled(line, "yellow"))
    print_equality(results["equality"])
    for name, reason in results["unavailable"].items():
        say_beside_output(Styled(f"{name}: {reason}", "dim"))
    say_beside_output(Styled(f"{out / 'index.html'} shows them in plots", "dim"))
    if old is None:
        return
    compared = compare_results(old["summary"], results["summary"])
    print_comparison(compared)
    if not compared:
        say_beside_output(Styled("nothing to compare: no suite, size and planner is in both", "dim"))
    if any(row["slower"] for row in compared):
        raise typer.Exit(SLOWER_EXIT_CODE)


def _planners(names: list[str]) -> tuple[list[str], dict[str, str]]:
    """Those that can run, and why the others cannot."""
    unknown = [name for name in names if name not in PLANNERS]
    if unknown:
        raise ConfigurationError(f"--planner {unknown[0]}: allowed {', '.join(PLANNERS)}")
    wanted = [PLANNERS[name] for name in names or PLANNERS]
    reasons = {planner.name: why_missing(planner) for planner in wanted}
    missing = {name: reason for name, reason in reasons.items() if reason}
    chosen = [name for name, reason in reasons.items() if not reason]
    if not chosen:
        said = "; ".join(f"{name} is {reason}" for name, reason in missing.items())
        raise ConfigurationError(f"--planner: none of them can run here: {said}")
    return chosen, missing


def _listed(values: list[str]) -> list[str]:
    """Values of an option that may be repeated and hold commas, each once; a file's name is taken whole."""
    parts = [part for value in values for part in ([value] if Path(value).is_file() else value.split(","))]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _sizes(text: str) -> list[int]:
    try:
        found = [int(part.replace("_", "")) for part in text.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found or min(found) < 2:
        raise ConfigurationError(
            f"--sizes {text!r}: allowed numbers of operators, 2 or more, with commas between"
        )
    return found
