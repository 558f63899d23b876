"""`penstock bench --quality`: how good the plans of planners are, side by side."""

import json
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.machine.replace_file import make_output_folder
from penstock.engine.measure.bench.suites import Case
from penstock.engine.output.figures import shown_in
from penstock.engine.output.pieces import Styled
from penstock.engine.output.progress import progress
from penstock.engine.output.redaction import redact
from penstock.engine.output.say import say, say_beside_output
from penstock.engine.planning.chosen_costs import DRAWN, require_costs
from penstock.engine.planning.plan_options import plan_options
from penstock.plans.errors import ConfigurationError
from penstock.plans.metrics.exchange_costs import CONSTANTS, read_constants

"""The value of --costs for operators that all cost the same."""

FORMAT = 1


def compare_plans_of(
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
    """Measure all cases, write results into `out` and show them.

    `master`: of the Spark that plans. `constants`: a file of the cost model's (see read_constants).
    """
    from penstock.engine.measure.bench.describe_machine import describe_machine, describe_versions
    from penstock.engine.measure.bench.measure_quality import measure_quality, require_planners
    from penstock.engine.measure.bench.prepare_inputs import prepare_inputs
    from penstock.engine.measure.bench.print_quality import print_quality, write_quality

    if not planners:
        raise ConfigurationError("--quality: found no --planner", "--planner flink,my_module:my_function")
    require_planners(planners)
    chosen = costs or DRAWN
    require_costs(chosen)
    terms = CONSTANTS if constants is None else read_constants(constants)
    choices = plan_options(cluster=configuration.cluster).choices
    make_output_folder(out)
    measure = measure_quality
    summaries, plans = [], []
    with progress(1 + (master is not None) + len(cases) * 2 * len(planners)) as report:
        if master is not None:
            from penstock.engine.measure.bench.measure_quality_on_spark import measure_quality_on_spark
            from penstock.engine.spark.session import get_session

            report("start Spark")
            spark = get_session(master=master, conf=configuration.spark, app_name="penstock bench")
            measure = partial(measure_quality_on_spark, spark)
        inputs = prepare_inputs(cases, out / "inputs", False, report, configuration.job_defaults)
        for case in cases:
            prepared = inputs[case]
            measured = measure(
                prepared.path(False), planners, chosen, choices, time_limit, report,
                configuration.job_defaults, terms,
            )  # fmt: skip
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
        say(json.dumps(results))
    else:
        print_quality(summaries)
    say_beside_output(Styled(shown_in(out / "quality.html", "distributions"), "dim"))
