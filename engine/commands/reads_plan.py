"""Let commands read plans from a store, or from topologies and scripts that are planned first."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, ParamSpec, TypeVar

import orjson
import polars as pl
import typer

from penstock.engine.commands.key_values import given_configuration
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.output.print_line import print_beside_output
from penstock.engine.store.open_plan import StoredPlan, open_plan
from penstock.engine.store.plan_source import HOLDS_PLANS, PlanSource, SourceKind, require_kind
from penstock.engine.store.scan_stored_table import BY_NAME
from penstock.engine.store.store_errors import store_errors
from penstock.plans.errors import StoreError

_SOURCE = typer.Argument(
    metavar="SOURCE",
    help="A plan store, STORE@VERSION, or a source that is planned first: a topology file, a folder of "
    "tables, or a script (.py).",
)
PlansToRead = Annotated[str, _SOURCE]
PlansToReadOrNone = Annotated[str | None, _SOURCE]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_CALLED: dict[str, str] = {}


class ReadStore(NamedTuple):
    """The plan store at `path` in a version; None is the newest."""

    path: str
    version: int | None


def called(store: str) -> str:
    """Return the user's name for the store, which is its source if the store was made for this command."""
    return _CALLED.get(store, store)


def reads_plan(*more: SourceKind) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorate a command that reads plans from its arguments `store` and `version`.

    `store` may be anything that holds plans (HOLDS_PLANS) or a kind in `more`; the command gets a store.
    Errors of the libraries that read it become Penstock's, in the whole command, because frames are read only
    when they are collected.
    """

    def decorated(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(command)
        def decorated_command(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            options: dict[str, Any] = dict(kwargs)
            source = require_kind(str(options["store"]), options.get("version"), *HOLDS_PLANS, *more)
            configured = options.get("config_dir"), options.get("define")
            with as_store(source, *configured) as read, store_errors(called(read.path), "reading"):
                kwargs["store"] = read.path
                if "version" in kwargs:
                    kwargs["version"] = read.version
                return command(*args, **kwargs)

        return decorated_command

    return decorated


def reads_store(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a command that refuses any `store` that is not a store, with a message that names its kind."""

    @wraps(command)
    def decorated_command(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        options: dict[str, Any] = dict(kwargs)
        source = require_kind(str(options["store"]), options.get("version"), SourceKind.STORE)
        kwargs["store"] = source.path
        if "version" in kwargs:
            kwargs["version"] = source.version
        with store_errors(source.path, "reading"):
            return command(*args, **kwargs)

    return decorated_command


@contextmanager
def as_store(
    source: PlanSource, config_dir: str | None = None, define: list[str] | None = None
) -> Iterator[ReadStore]:
    """Yield a store with the plans of `source`, which may be `source` itself or a temporary store.

    Raises the errors of planning, and InputError if a script executes no job.
    """
    if source.kind in (SourceKind.STORE, SourceKind.RESULTS, SourceKind.STATE):
        yield ReadStore(source.path, source.version)
        return
    from penstock.engine.output.progress import progress
    from penstock.engine.planning.choose_planner import Planner, choose_planner
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.planning.planners import plan_topologies

    configuration = given_configuration(config_dir, define)
    options = plan_options(cluster=configuration.cluster, job_defaults=configuration.job_defaults)
    with short_lived_folder("plan") as folder:
        inputs = [source.path]
        if source.kind is SourceKind.SCRIPT:
            inputs = [str(topologies_of_script(source.path, Path(folder), options, configuration.scripts))]
        store = str(Path(folder) / "store")
        chosen = choose_planner(Planner.COLUMNAR, inputs, store, wants_spark=False)
        stored = plan_topologies(inputs, options, chosen, store, progress=progress)
        print_beside_output(
            f"{source.path}: {stored.planned:,} planned and {stored.rejected:,} rejected of "
            f"{stored.inputs:,} topologies; penstock plan saves plans in a store"
        )
        _CALLED[store] = source.path
        try:
            yield ReadStore(store, None)
        finally:
            del _CALLED[store]


def topologies_of_script(script: str, folder: Path, options: Any, scripts: object) -> Path:
    """Write a file of topology lines, one for each job that the script executes, as PyFlink submits it.

    Nothing runs. Output of the script and lost names and uids go to standard error.
    """
    from penstock.engine.commands.job_option import print_failure_of_script
    from penstock.engine.library.run_script import print_lost_settings
    from penstock.engine.library.what_if_of_script import jobs_of_script
    from penstock.engine.run.runtime.run_context import EnvironmentSettings
    from penstock.engine.run.runtime.transformations import topology_of

    settings = EnvironmentSettings(config=scripts, plan_options=options)  # type: ignore[arg-type]
    with redirect_stdout(sys.stderr):
        captured = jobs_of_script(script, [], settings)
    print_failure_of_script(captured)
    for job in captured.jobs:
        print_lost_settings(job)
    lines = [orjson.dumps(topology_of(job)) for job in captured.jobs]
    file = folder / f"{Path(script).stem}.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file


# Check the store that a command writes to before the work starts.


def require_store(store: str) -> None:
    """Call engine.store.require_target, and print its repairs."""
    from penstock.engine.store.require_target import require_target

    for repaired in require_target(store):
        print_beside_output(repaired)


def tables_read_once() -> AbstractContextManager[None]:
    """Call engine.store.delta_rs_table.shared_tables."""
    from penstock.engine.store.delta_rs_table import shared_tables

    return shared_tables()


# The part of a store chosen by `--version` and `--topology`.


_SIMILAR = 10_000
"""Names that are searched for a close match."""


def chosen_plan(store: str, version: int | None, topology: str | None) -> StoredPlan:
    """Open the version, or the newest if it is None, with all rows or only the rows of `topology`.

    Raises StoreError if the store, version or topology does not exist, with the closest names of topologies.
    """
    plan = open_plan(store, version, topology)
    if topology is not None and _names(plan, 1).is_empty():
        everything = open_plan(store, plan.version.version)
        raise StoreError(f"{called(store)} has no topology {topology!r}", _closest(everything, topology))
    return plan


def _closest(plan: StoredPlan, topology: str) -> str:
    """Return names with the same beginning or, in a store that is not too large, a similar spelling."""
    names = _names(plan, _SIMILAR).to_list()
    close = get_close_matches(topology, names, n=3, cutoff=0.5) or names[:3]
    return ("close names: " if close else "it is empty") + ", ".join(close)


def _names(plan: StoredPlan, most: int) -> pl.Series:
    """Return the first names of topologies, rejected ones too."""
    both = pl.concat([plan.table(table).select("name") for table in BY_NAME if plan.has(table)])
    return both.drop_nulls().unique().sort("name").head(most).collect()["name"]
