"""`penstock plan` on Spark: on that of a session, or on one of its own."""

from pathlib import Path

from penstock.engine.commands.chosen_cluster import chosen_cluster
from penstock.engine.output.progress import Report
from penstock.engine.planning.plan_into_store import Stored, WorkOnSpark, plan_into_store_on_spark
from penstock.engine.run.clusters.session_plans import ask_for_plan
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.columnar.find_topology_files import is_pipe


def plan_on_cluster_or_session(
    work: WorkOnSpark, master: str | None, session: str | None, report: Report
) -> Stored:
    """Plan on the cluster that `penstock run` would choose.

    Raises ConfigurationError for a session that does not run, or cannot do this.
    """
    cluster = chosen_cluster(master, session, work.conf, verbose=False)
    if cluster.session is None:
        from penstock.engine.planning.planning_settings import settings_for_planner
        from penstock.engine.spark.session import get_session

        of_jvm = settings_for_planner(work.choice.planner)
        return plan_into_store_on_spark(
            work,
            lambda: get_session(
                master=cluster.master, conf=work.conf, app_name="penstock plan", of_jvm=of_jvm
            ),
            report,
        )
    name = cluster.session.name
    if work.custom_planners is not None:
        raise ConfigurationError(
            f"--planner {work.custom_planners.name}: session {name!r} plans by Penstock's own planners",
            "give --master, or plan without a session",
        )
    if work.checkpoint_dir is not None:
        raise ConfigurationError(
            f"--checkpoint-dir {work.checkpoint_dir}: session {name!r} keeps what it needs in its executors",
            "leave it out, or give --master",
        )
    for path in work.inputs:
        if is_pipe(path):
            raise ConfigurationError(
                f"{path}: the server of session {name!r} cannot read a pipe of this command",
                "write it to a file, or plan without a session",
            )
    absolute = work._replace(inputs=tuple(map(_absolute, work.inputs)), out=_absolute(work.out))
    stored = ask_for_plan(cluster.session, absolute, report)
    assert isinstance(stored, Stored)
    return stored


def _absolute(path: str) -> str:
    """The path as the server finds it, which has a different working folder."""
    return path if "://" in path or path.startswith("file:") else str(Path.cwd() / path)
