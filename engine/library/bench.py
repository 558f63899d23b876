"""Measure planners by a library call."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import polars as pl
import pyarrow as pa

from penstock.engine.library.check_arguments import (
    Config,
    arguments_of_call,
    library_configuration,
    member,
    path,
    seconds,
    text,
    whole_number,
)
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.output.pieces import html_table
from penstock.plans.errors import ConfigurationError
from penstock.plans.vocabulary import Layer, LayerName

if TYPE_CHECKING:
    from penstock.engine.measure.bench.prepare_inputs import Case

__all__ = ["bench"]

_FIGURES = ("planning", "from … to", "cold", "reading", "start-up", "CPU", "peak GiB", "speed")


class Benchmark:
    """Times of planners on the same topologies.

    Attributes:
        results: Everything, in the form of results.json (docs/benchmarks.md).
        answers: The results in sentences.
    """

    def __init__(self, results: Mapping[str, Any]) -> None:
        self.results = dict(results)
        self.answers: list[str] = list(results["answers"])

    @property
    def summary(self) -> pa.Table:
        """A row for each suite, size and planner: seconds of planning and start-up, memory, failures.

        `low` and `high` are the interval of the median of `planning_seconds`, with the probability
        `confidence`.
        """
        return pl.DataFrame(map(_row, self.results["summary"]), schema=_SCHEMA).to_arrow(
            compat_level=pl.CompatLevel.oldest()
        )

    def show(self) -> None:
        """Print it, as `penstock bench` does."""
        from penstock.engine.measure.bench.print_results import print_equality, print_results
        from penstock.engine.output.print_line import print_line

        print_results(self.results["summary"])
        for line in self.answers:
            print_line(line)
        print_equality(self.results["equality"])

    def __repr__(self) -> str:
        return f"<penstock.Benchmark: {len(self.results['measurements']):,} measurements>"

    def _repr_html_(self) -> str:
        from penstock.engine.measure.bench.print_results import figures

        columns = ("suite", "operators", "planner", *_FIGURES)
        rows = [
            (row["suite"], f"{row['operators']:,}", row["planner"], *figures(row))
            for row in self.results["summary"]
        ]
        return html_table(" ".join(self.answers), columns, rows)


_SCHEMA: dict[str, Any] = {
    "suite": pl.String,
    "operators": pl.Int64,
    "topologies": pl.Int64,
    "planner": pl.String,
    "repetitions": pl.Int64,
    **dict.fromkeys(("planning_seconds", "low", "high", "confidence", "cold_seconds"), pl.Float64),
    **dict.fromkeys(("start_up_seconds", "cpu_seconds"), pl.Float64),
    "peak_memory_bytes": pl.Int64,
    "failures": pl.Int64,
}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    from penstock.engine.measure.bench.print_results import best_planning

    low, high, confidence = row["interval"] or (None, None, None)
    return {
        **{name: row[name] for name in ("suite", "operators", "topologies", "planner", "repetitions")},
        "planning_seconds": best_planning(row),
        "low": low,
        "high": high,
        "confidence": confidence,
        "cold_seconds": None if row["cold"] is None else row["cold"]["planning"],
        "start_up_seconds": row["start_up_seconds"],
        "cpu_seconds": row["cpu_seconds"],
        "peak_memory_bytes": row["peak_memory_bytes"],
        "failures": len(row["failures"]),
    }


@overload
def bench(
    suites: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = ("fleet", "layered"),
    planners: Sequence[Any] = (),
    *,
    sizes: Sequence[int] = (1_000, 10_000, 100_000),
    until: Layer | LayerName = Layer.SLOTS,
    repeat: int = 3,
    repeat_in_process: int = 3,
    budget_seconds: float | None = 120,
    timeout_seconds: float = 600,
    config: Config = None,
    out: str | os.PathLike[str] | None = None,
    quality: Literal[True],
    costs: Any = None,
    time_limit: float = 60.0,
) -> "PlanQuality": ...


@overload
def bench(
    suites: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = ("fleet", "layered"),
    planners: Sequence[Any] = (),
    *,
    sizes: Sequence[int] = (1_000, 10_000, 100_000),
    until: Layer | LayerName = Layer.SLOTS,
    repeat: int = 3,
    repeat_in_process: int = 3,
    budget_seconds: float | None = 120,
    timeout_seconds: float = 600,
    config: Config = None,
    out: str | os.PathLike[str] | None = None,
    quality: Literal[False] = False,
    costs: Any = None,
    time_limit: float = 60.0,
) -> Benchmark: ...


def bench(
    suites: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = ("fleet", "layered"),
    planners: Sequence[Any] = (),
    *,
    sizes: Sequence[int] = (1_000, 10_000, 100_000),
    until: Layer | LayerName = Layer.SLOTS,
    repeat: int = 3,
    repeat_in_process: int = 3,
    budget_seconds: float | None = 120,
    timeout_seconds: float = 600,
    config: Config = None,
    out: str | os.PathLike[str] | None = None,
    quality: bool = False,
    costs: Any = None,
    time_limit: float = 60.0,
) -> "Benchmark | PlanQuality":
    """Measure planners on the same topologies, in rotating order, each in processes of its own.

    Args:
        suites: Names that `penstock bench --help` lists, and files of topology lines; default fleet and
            layered.
        planners: "process", "workers" (in Spark's), "blocks" (the same, large topologies in blocks), "flink"
            (the real Flink), and custom planners as "module:name" or as functions of modules. Default: all
            that are installed. With `quality`: "flink" (Flink's rules, without Flink itself) and custom
            planners, the first of which the others are compared with.
        sizes: Operators of a suite, each 1 or more; files keep their own.
        until: The last layer to plan; default slots.
        repeat: Measured processes of each planner, 1 or more.
        repeat_in_process: Warm plans in each process, 0 or more.
        budget_seconds: Sizes and repetitions beyond this time are omitted; None: all are measured.
        timeout_seconds: Seconds for one process.
        config: Options by key, or a directory of YAML files.
        out: Folder for results.json and its page.
        quality: Compare the plans by resources and sustained rates instead, in this process.
        costs: Operator costs for `quality`, as for `Plan.metrics`; default "drawn".
        time_limit: Seconds, above 0, for each batch of a custom planner.

    Returns:
        Benchmark | PlanQuality: PlanQuality if `quality`; `summary` and `compared` are Arrow tables.

    Raises:
        ConfigurationError: An argument is invalid, or a planner is not installed.
        InputError: A file cannot be read.

    Examples:
        >>> planned = penstock.bench(["chain"], ["flink"], sizes=[2], quality=True, costs="alike")
        >>> type(planned).__name__
        'PlanQuality'
    """
    from penstock.engine.machine.folders import hold_folder
    from penstock.engine.machine.replace_file import make_output_folder
    from penstock.engine.measure.bench.measure_suites import measure_suites
    from penstock.engine.measure.bench.planners import chosen_planners
    from penstock.engine.measure.bench.prepare_inputs import cases_of, each_once, find_suite
    from penstock.engine.output.progress import Report
    from penstock.engine.planning.find_custom_planners import importable_name

    layer = member("until", until, Layer)
    if layer is Layer.TOPOLOGY:
        raise ConfigurationError("until: the layer topology cannot be measured", "name a later layer")
    if not isinstance(suites, str | os.PathLike | list | tuple):
        raise ConfigurationError(
            f"suites must be names of suites or paths of topology files, got {type(suites).__name__}"
        )
    named = [suites] if isinstance(suites, str | os.PathLike) else list(suites)
    by = [planners] if isinstance(planners, str) or callable(planners) else list(planners)
    counts = [whole_number("sizes", size, 2) for size in sizes]
    with arguments_of_call():
        cases = cases_of(each_once([find_suite(path("suites", suite)) for suite in named]), counts)
        if quality:
            limit = seconds("time_limit", time_limit)
            with _folder(out) as folder:
                return _compared(cases, by, costs, limit, config, folder)
        by = [importable_name(planner, "planners") if callable(planner) else planner for planner in by]
        chosen, unavailable = chosen_planners([text("planners", planner, "process") for planner in by])
    settings = {
        "until": layer.value,
        "repeat": whole_number("repeat", repeat),
        "repeat_in_process": whole_number("repeat_in_process", repeat_in_process, 0),
        "budget_seconds": None if budget_seconds is None else seconds("budget_seconds", budget_seconds),
        "timeout_seconds": seconds("timeout_seconds", timeout_seconds),
        "options": {},
    }
    with _folder(out) as folder, _configuration_of_children(config) as job_defaults:
        make_output_folder(folder)
        with hold_folder(folder, "penstock.bench"):
            return Benchmark(
                measure_suites(
                    cases,
                    chosen,
                    unavailable,
                    settings,
                    folder,
                    job_defaults,
                    Report(),
                    command="penstock.bench",
                )
            )


class PlanQuality:
    """Resources and rates of the plans of several planners, on the same topologies.

    Attributes:
        results: Everything, in the form of quality.json.
        plans: The metrics of each topology and planner, an Arrow table.
    """

    def __init__(self, results: Mapping[str, Any], plans: pa.Table) -> None:
        self.results = dict(results)
        self.plans = plans

    @property
    def compared(self) -> pa.Table:
        """A row for each suite, size, pair of planners and metric: means, and topologies better and worse.

        `difference` is the mean difference, `low` and `high` its 95% interval.
        """
        names = ("metric", "difference", "low", "high", "better", "equal", "worse")
        rows = [
            {
                "suite": case["suite"], "size": case["size"], "base": pair["base"], "other": pair["other"],
                "topologies": pair["topologies"], "base_mean": entry["base"], "other_mean": entry["other"],
                **{name: entry[name] for name in names},
            }
            for case in self.results["cases"] for pair in case["compared"] for entry in pair["metrics"]
        ]  # fmt: skip
        return pl.DataFrame(rows).to_arrow(compat_level=pl.CompatLevel.oldest())

    def show(self) -> None:
        """Print it, as `penstock bench --quality` does."""
        from penstock.engine.measure.bench.measure_quality import print_quality

        print_quality(self.results["cases"])

    def __repr__(self) -> str:
        planners = ", ".join(self.results["planners"])
        return f"<penstock.PlanQuality: {len(self.results['cases']):,} cases, {planners}>"


def _compared(
    cases: "Sequence[Case]", planners: Sequence[Any], costs: Any, limit: float, config: Config, folder: Path
) -> PlanQuality:
    """Compare plans of all cases by all planners with the first planner's."""
    from penstock.engine.library.given_topologies import costs_named
    from penstock.engine.machine.replace_file import make_output_folder
    from penstock.engine.measure.bench.measure_quality import measure_quality, require_planners, write_quality
    from penstock.engine.measure.bench.measure_suites import describe_machine
    from penstock.engine.measure.bench.prepare_inputs import prepare_inputs
    from penstock.engine.output.progress import Report
    from penstock.engine.planning.chosen_costs import DRAWN
    from penstock.engine.planning.find_custom_planners import name_of_planner
    from penstock.engine.planning.plan_options import plan_options

    if not planners:
        raise ConfigurationError("planners to compare are required", 'such as ["flink", my_function]')
    require_planners(planners)
    summaries: list[dict[str, Any]] = []
    plans = []
    configuration = library_configuration(config)
    options = plan_options(cluster=configuration.cluster, job_defaults=configuration.job_defaults)
    with costs_named(DRAWN if costs is None else costs) as chosen:
        make_output_folder(folder)
        inputs = prepare_inputs(cases, folder / "inputs", False, Report(), configuration.job_defaults)
        for case in cases:
            prepared = inputs[case]
            measured = measure_quality(
                prepared.path(False),
                planners,
                chosen,
                options,
                limit,
            )
            case_columns = {"suite": case.suite.name, "size": case.size, "operators": prepared.operators}
            summaries.append({**case_columns, **measured.summary})
            plans += [(case.suite.name, case.size, name, rows) for name, rows in measured.plans.items()]
        results = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "machine": describe_machine(),
            "planners": [name_of_planner(planner) for planner in planners],
            "costs": chosen,
            "cases": summaries,
        }
        write_quality(folder, results, plans)
    labelled_plans = [
        rows.select(
            pl.lit(suite).alias("suite"), pl.lit(size).alias("size"), pl.lit(name).alias("planner"), pl.all()
        )
        for suite, size, name, rows in plans
    ]
    return PlanQuality(results, pl.concat(labelled_plans).to_arrow(compat_level=pl.CompatLevel.oldest()))


@contextmanager
def _folder(out: Any) -> Iterator[Path]:
    if out is not None:
        yield Path(path("out", out))
        return
    with short_lived_folder("bench") as folder:
        yield Path(folder) / "out"


@contextmanager
def _configuration_of_children(config: Config) -> Iterator[Any]:
    """Pass the configuration to child processes inside the context; yield the defaults of jobs."""
    from penstock.engine.measure.bench.planners import handed_on

    library_configuration(config)  # reports its errors
    if config is None or isinstance(config, Mapping):
        context = handed_on(None, dict(config or {}))
    else:
        context = handed_on(path("config", config), {})
    with context as configuration:
        yield configuration.job_defaults
