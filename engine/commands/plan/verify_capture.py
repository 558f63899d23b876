"""`penstock capture --verify`: Penstock's plans of captured jobs beside those of Flink."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout

import orjson

from penstock.engine.flink.capture.run_capture import Captured
from penstock.engine.flink.flink_jars import FLINK_VERSION
from penstock.engine.library.compare_with_captured import ScriptComparison, compare_with_captured
from penstock.engine.planning.verify_captured import verify_captured
from penstock.engine.pyflink.datastream.environment_settings import EnvironmentSettings
from penstock.plans.errors import PenstockError


class NotVerifiedError(PenstockError):
    """Flink did not plan a captured job, or Penstock plans it otherwise."""

    exit_code = 10


def verified(captured: Captured) -> dict[str, list[str]]:
    """For each job, by name: where Penstock's plan of its graph says something else than Flink's.

    Raises NotVerifiedError if Flink gave no plan of one.
    """
    differences = verify_captured(captured.lines, captured.plans)
    names = [str(orjson.loads(line)["name"]) for line in captured.lines]
    if missing := [name for name in names if name not in differences]:
        raise NotVerifiedError(f"Flink did not plan {', '.join(missing)}", "this is a bug in Penstock")
    return differences


def lowered(
    words: Sequence[str],
    captured: Captured,
    parallelism: int | None,
    options: Mapping[str, str],
    *,
    verbose: bool,
) -> ScriptComparison:
    """The captured jobs of a PyFlink script beside those that Penstock makes of it.

    `words` are the script and its arguments. What it prints goes to standard error, if `verbose`, and it may
    change its folder.
    """
    version = captured.flink_version
    if version.split(".")[:2] != FLINK_VERSION.split(".")[:2]:
        return ScriptComparison({}, f"it makes graphs as PyFlink {FLINK_VERSION} does, not as {version}")
    if parallelism is None and "parallelism.default" not in options:
        parallelism = 1  # as of flink run
    settings = EnvironmentSettings(config=options, parallelism=parallelism)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        out = sys.stderr if verbose else nowhere
        with redirect_stdout(out), redirect_stderr(out), chdir(os.getcwd()):
            return compare_with_captured(words[0], words[1:], settings, captured.lines, captured.plans)


def require_equal(
    program: str,
    captured: Captured,
    of_plans: Mapping[str, Sequence[str]],
    of_script: Mapping[str, Sequence[str]],
) -> None:
    """Raises NotVerifiedError if there is a difference, of the plans or of the graphs of a script."""
    if different := sum(map(bool, of_plans.values())):
        raise NotVerifiedError(
            f"Penstock plans {different} of {len(captured.lines)} jobs otherwise than Flink does",
            "this is a bug in Penstock: please report it with the lines that differ",
        )
    if different := sum(map(bool, of_script.values())):
        raise NotVerifiedError(
            f"Penstock makes another graph of {program} than PyFlink for {different} of "
            f"{len(captured.lines)} jobs, and plans PyFlink's as Flink does",
            "docs/running-jobs.md names three such cases, where a script goes on with streams of a job that "
            "has run; any other is a bug in Penstock",
        )
