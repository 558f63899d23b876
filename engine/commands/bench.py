"""The command `penstock bench`, which measures planners and compares their plans."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.engine.commands.key_values import ConfigDir, Define, key_values
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.machine.folders import hold_folder
from penstock.engine.machine.replace_file import make_output_folder
from penstock.engine.measure.bench.planners import (
    PLANNERS,
    budget_seconds,
    chosen_planners,
    hand_on,
    listed,
    numbers_of_operators,
)
from penstock.engine.measure.bench.prepare_inputs import SUITES, Case, cases_of, each_once, find_suite
from penstock.engine.output.figures import describe_figures
from penstock.engine.output.pieces import StyledText, may_be_terminal
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.output.progress import Report, progress
from penstock.engine.output.redaction import redact, redact_value, remember_secrets
from penstock.engine.planning.chosen_costs import DRAWN, require_costs
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.spark.spark_conf import spark_conf_dir_in_use, spark_settings
from penstock.plans.errors import ConfigurationError
from penstock.plans.metrics.rates_and_loads import CONSTANTS, read_constants
from penstock.plans.vocabulary import Layer

# `penstock bench --quality`: the quality of plans of several planners, side by side.

FORMAT = 1
"""Version of the format of quality.json."""


def _compare_plans_of(
    planners: Sequence[str],
    cases: Sequence[Case],
    costs: str | None,
    time_limit: float,
    out: Path,
    configuration: EffectiveConfiguration,
    as_json: bool,
    master: str | None = None,
    constants: Path | None = None,
) -> None:
    """Measure all cases, write the results into `out` and print them.

    `master` is the URL of the Spark that plans; `constants` a file of the cost model (see read_constants).
    """
    from penstock.engine.measure.bench.measure_quality import (
        measure_quality,
        print_quality,
        require_planners,
        write_quality,
    )
    from penstock.engine.measure.bench.measure_suites import describe_machine, describe_versions
    from penstock.engine.measure.bench.prepare_inputs import prepare_inputs

    if not planners:
        raise ConfigurationError("--quality needs --planner", "--planner flink,my_module:my_function")
    require_planners(planners)
    chosen = costs or DRAWN
    require_costs(chosen)
    terms = CONSTANTS if constants is None else read_constants(constants)
    options = plan_options(cluster=configuration.cluster, job_defaults=configuration.job_defaults)
    make_output_folder(out)
    measure = measure_quality
    summaries, plans = [], []
    with progress(1 + (master is not None) + len(cases) * 2 * len(planners)) as report:
        if master is not None:
            from penstock.engine.measure.bench.measure_quality import measure_quality_on_spark
            from penstock.engine.spark.session import get_session

            report("start Spark")
            spark = get_session(master=master, conf=configuration.spark, app_name="penstock bench")
            measure = partial(measure_quality_on_spark, spark)
        inputs = prepare_inputs(cases, out / "inputs", False, report, configuration.job_defaults)
        for case in cases:
            prepared = inputs[case]
            measured = measure(prepared.path(False), planners, chosen, options, time_limit, report, terms)
            about = {"suite": case.suite.name, "size": case.size, "operators": prepared.operators}
            summaries.append({**about, **measured.summary})
            plans += [(case.suite.name, case.size, name, rows) for name, rows in measured.plans.items()]
    results: dict[str, Any] = {
        "format": FORMAT,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "command": redact(shlex.join(["penstock", *sys.argv[1:]])),
        "machine": describe_machine(),
        "versions": describe_versions(False),
        "planners": list(planners),
        "costs": chosen,
        "constants": {name: value for name, value in terms._asdict().items() if isfinite(value)},
        "cases": summaries,
    }
    write_quality(out, results, plans)
    if as_json:
        print_line(json.dumps(results))
    else:
        print_quality(summaries)
    print_beside_output(StyledText(describe_figures(out / "quality.html", "distributions"), "dim"))


SLOWER_EXIT_CODE = 5
DEFAULT_SUITES = "fleet,layered"
DEFAULT_SIZES = "1000,10000,100000"
DEFAULT_REPEAT = 3
DEFAULT_BUDGET = "2m"
_SUITES = "; ".join(f"{suite.name}: {suite.about}" for suite in SUITES.values())


def bench_command(
    suite: Annotated[
        list[str] | None,
        typer.Option(
            "--suite",
            metavar="NAME|FILE",
            help=f"Topologies to plan; repeatable, or several with commas. {_SUITES}. "
            f"FILE: your own topology lines. Default: {DEFAULT_SUITES}.",
        ),
    ] = None,
    planner: Annotated[
        list[str] | None,
        typer.Option(
            "--planner",
            metavar="NAME",
            help=f"{', '.join(PLANNERS)}; repeatable, or several with commas. Default: all that are "
            "installed. Custom planners: PACKAGE.MODULE:FUNCTION, entry points of the group "
            "penstock.planners. With --quality: flink (its rules) and custom ones, compared with the first.",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes",
            metavar="N,N,...",
            help=f"Operators of a suite; files keep their own. Default: all sizes in {DEFAULT_SIZES} that "
            "--budget allows.",
        ),
    ] = None,
    until: Annotated[
        Layer, typer.Option("--until", metavar="LAYER", help=f"The last layer: {', '.join(list(Layer)[1:])}.")
    ] = Layer.SLOTS,
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat",
            min=1,
            metavar="N",
            help="Processes for each suite, size and planner; planners on Spark share one. Default: "
            f"{DEFAULT_REPEAT}, or fewer if --budget runs out.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="TIME",
            help="Approximate total time, such as 90s or 10m: sizes and repetitions that do not fit are "
            f"left out. Default: {DEFAULT_BUDGET}; no limit if --sizes or --repeat is given.",
        ),
    ] = None,
    repeat_in_process: Annotated[
        int,
        typer.Option(
            "--repeat-in-process",
            min=0,
            metavar="N",
            help="Warm plans in each process, after the cold plan: as many as fit in 10 seconds, or one. "
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
            help="An older results.json: print ratios, and exit with 5 if a planner became slower by more "
            "than a quarter.",
        ),
    ] = None,
    history: Annotated[
        bool,
        typer.Option(
            "--history",
            help="Measure nothing: print the planners' times over all benchmarks in DIR, and since "
            "when they have changed.",
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the benchmark in DIR, stopped or done: its measurements are reused, and only "
            "the remaining repetitions are measured (more with a larger --repeat).",
        ),
    ] = False,
    config_dir: ConfigDir = None,
    define: Define = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="S", help="Seconds that a process may take.")
    ] = 600,
    quality: Annotated[
        bool,
        typer.Option("--quality", help="Compare the quality of plans, topology by topology."),
    ] = False,
    costs: Annotated[
        str | None,
        typer.Option(
            "--costs",
            metavar="COSTS",
            help="With --quality: costs of operators: a table (JSON lines, .csv, .parquet), a store with "
            "runs, drawn by hash, or all alike. Default: drawn.",
        ),
    ] = None,
    constants: Annotated[
        Path | None,
        typer.Option(
            "--constants",
            metavar="FILE",
            help="With --quality: constants of the cost model, as written by penstock metrics --calibrate.",
        ),
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            min=0.01,
            metavar="S",
            help="With --quality: seconds that a custom planner may take for each batch.",
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
        bool, typer.Option("--json", help="With --quality: print JSON instead of tables.")
    ] = False,
) -> None:
    """Measure planners on the same topologies, in turn, each in processes of its own (on Spark, one for all).

    DIR gets results.json, results.jsonl (as they come), the Delta table results (a run adds rows) and
    index.html, which are replaced after each process: a benchmark that is stopped keeps its measurements. A
    planner that fails or takes too long is a result. At the smallest size of each suite the planners' plans
    are compared.

    With --quality, plans are compared by resources and sustained rates; DIR gets quality.json, quality.html
    and rows of the Delta table quality.

    Examples:
        penstock bench --suite fleet,layered --planner process,blocks --sizes 1000,10000
        penstock bench --compare bench-results/results.json
        penstock bench --quality --planner flink,my_planner:chain

    Exit codes:
        5: With --compare: a planner got slower by more than a quarter.
    """
    if history:
        from penstock.engine.measure.bench.print_results import print_history, read_history

        print_history(read_history(out))
        return
    options = key_values(define, "-D")
    configuration = hand_on(config_dir, options)
    remember_secrets(spark_settings(spark_conf_dir_in_use()))  # child processes start with them
    suites = [find_suite(name) for name in listed(suite or [DEFAULT_SUITES])]
    cases = cases_of(each_once(suites), numbers_of_operators(DEFAULT_SIZES if sizes is None else sizes))
    if quality:
        for option, is_given in (
            ("--resume", resume),
            ("--compare", compare is not None),
            ("--budget", budget is not None),
        ):
            if is_given:
                raise ConfigurationError(f"{option} cannot be combined with --quality")
        names = listed(planner or [])
        make_output_folder(out)
        with hold_folder(out, "penstock bench"):
            _compare_plans_of(
                names, cases, costs, time_limit, out, configuration, json_output, master, constants
            )
        return
    for option, is_given in (
        ("--costs", costs is not None),
        ("--constants", constants is not None),
        ("--master", master is not None),
    ):
        if is_given:
            raise ConfigurationError(f"{option} needs --quality")
    if json_output:
        raise ConfigurationError("--json needs --quality")
    from penstock.engine.measure.bench.print_results import read_results

    if until is Layer.TOPOLOGY:
        raise ConfigurationError("--until topology leaves nothing to measure", "name a later layer")
    chosen, unavailable = chosen_planners(listed(planner or []))
    old = None if compare is None else read_results(compare)
    make_output_folder(out)
    limit = budget or (None if sizes or repeat or resume else DEFAULT_BUDGET)
    settings: dict[str, Any] = {
        "until": until.value,
        "repeat": repeat or DEFAULT_REPEAT,
        "budget_seconds": None if limit is None else budget_seconds(limit),
        "repeat_in_process": repeat_in_process,
        "timeout_seconds": timeout,
        "options": {key: redact_value(key, value) for key, value in options.items()},
    }
    from penstock.engine.measure.bench.measure_suites import measure_suites, stages

    if limit is not None:
        print_beside_output(f"measuring for about {limit}; --budget changes that")
    with hold_folder(out, "penstock bench"), progress(stages(cases, chosen, settings["repeat"])) as report:
        results = measure_suites(
            cases,
            chosen,
            unavailable,
            settings,
            out,
            configuration.job_defaults,
            report,
            command=redact(shlex.join(["penstock", *sys.argv[1:]])),
            resume=resume,
            on_record=partial(_print_measured, report),
        )
    if results["left_out"]:
        every = results["left_out"] + results["turns"]
        message = f"{results['left_out']:,} of {every:,} measurements did not fit into {limit}"
        print_beside_output(
            StyledText(f"{message}: use --budget, --sizes or --repeat to measure more", "dim")
        )
    _report(results, old, out)


def _print_measured(report: Report, record: Mapping[str, Any], seconds: float) -> None:
    """Show the remaining time in the progress bar of a terminal, or else print the measurement as a line."""
    from penstock.engine.measure.bench.prepare_inputs import seconds_left

    report.note(seconds_left(seconds))
    if may_be_terminal(sys.stderr):
        return
    times = (record["warm"] or [record["cold"]])[-1]
    result = f"failed: {record['failure']['error']}" if times is None else f"{times['planning']:.3g} s"
    print_beside_output(
        f"{record['suite']} {record['operators']:,} {record['planner']}, repetition "
        f"{record['repetition'] + 1}: {result}; {seconds_left(seconds)}"
    )


def _report(results: dict[str, Any], old: dict[str, Any] | None, out: Path) -> None:
    from penstock.engine.measure.bench.print_results import (
        compare_results,
        print_comparison,
        print_equality,
        print_results,
    )

    print_results(results["summary"])
    for line in results["answers"]:
        print_line(line)
    for line in results["doubts"]:
        print_beside_output(StyledText(line, "yellow"))
    print_equality(results["equality"])
    for name, reason in results["unavailable"].items():
        print_beside_output(StyledText(f"{name}: {reason}", "dim"))
    print_beside_output(StyledText(describe_figures(out / "index.html", "plots of them"), "dim"))
    if old is None:
        return
    compared = compare_results(old["summary"], results["summary"])
    print_comparison(compared)
    if not compared:
        print_beside_output(StyledText("nothing to compare: no suite, size and planner is in both", "dim"))
    if any(row["slower"] for row in compared):
        raise typer.Exit(SLOWER_EXIT_CODE)
