"""Let commands read plans from a store, or from topologies and scripts that are planned first."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from difflib import get_close_matches
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

import polars as pl
import typer

from penstock.engine.commands.key_values import given_configuration
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.library.open_source import open_source
from penstock.engine.output.print_line import print_beside_output
from penstock.engine.output.progress import progress
from penstock.engine.store.plan_source import HOLDS_PLANS, SourceKind, require_kind
from penstock.engine.store.plan_tables import BY_NAME, PlanTables
from penstock.engine.store.store_location import store_errors
from penstock.plans.errors import StoreError
from penstock.plans.vocabulary import Layer

_SOURCE = typer.Argument(
    metavar="SOURCE",
    help="A plan store, STORE@VERSION, or a source that is planned first: a topology file, a folder of "
    "tables, or a script (.py).",
)
PlansToRead = Annotated[str, _SOURCE]
PlansToReadOrNone = Annotated[str | None, _SOURCE]

JobOption = Annotated[
    str | None,
    typer.Option("--job", metavar="N|NAME", help="For a script: the job's name or number (from 1)."),
]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@contextmanager
def opened_plan(
    source: str,
    version: int | None = None,
    topology: str | None = None,
    config_dir: str | None = None,
    define: list[str] | None = None,
    *,
    in_store: bool = False,
) -> Iterator[PlanTables]:
    """Open the plans of a source (HOLDS_PLANS) for a command, or only the plan of `topology`.

    Planning shows its progress and prints counts. Frames are read only when they are collected, so errors of
    reading are raised in the whole context. Raises the errors of require_kind, open_source and only_topology.
    """
    place = require_kind(source, version, *HOLDS_PLANS)

    def configuration() -> EffectiveConfiguration:
        return given_configuration(config_dir, define)

    with ExitStack() as stack:
        if place.kind is SourceKind.STORE:
            plan = stack.enter_context(open_source(place, configuration))
        else:
            from penstock.plans.planners.plan_in_parts import stages

            with progress(stages(Layer.SLOTS) + 2) as report:
                opening = open_source(place, configuration, in_store=in_store, report=report)
                plan = stack.enter_context(opening)
            print_beside_output(
                f"{plan.label}: {plan.planned:,} planned and {plan.rejected:,} rejected of "
                f"{plan.planned + plan.rejected:,} topologies; penstock plan saves plans in a store"
            )
        yield plan if topology is None else only_topology(plan, topology)


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


# Check the store that a command writes to before the work starts.


def require_store(store: str) -> None:
    """Call engine.store.write_plan.require_target, and print its repairs."""
    from penstock.engine.store.write_plan import require_target

    for repaired in require_target(store):
        print_beside_output(repaired)


def tables_read_once() -> AbstractContextManager[None]:
    """Call engine.store.delta_table.shared_tables."""
    from penstock.engine.store.delta_table import shared_tables

    return shared_tables()


# The part of a plan chosen by `--version` and `--topology`.


_SIMILAR = 10_000
"""Names that are searched for a close match."""


def only_topology(plan: PlanTables, topology: str) -> PlanTables:
    """Return the plan of `topology`. Raises StoreError with the closest names if the plan lacks it."""
    chosen = plan.of_topology(topology)
    if _names(chosen, 1).is_empty():
        raise StoreError(f"{plan.label} has no topology {topology!r}", _closest(plan, topology))
    return chosen


def _closest(plan: PlanTables, topology: str) -> str:
    """Return names with the same beginning or, in a plan that is not too large, a similar spelling."""
    names = _names(plan, _SIMILAR).to_list()
    close = get_close_matches(topology, names, n=3, cutoff=0.5) or names[:3]
    return ("close names: " if close else "it is empty") + ", ".join(close)


def _names(plan: PlanTables, most: int) -> pl.Series:
    """Return the first names of topologies, rejected ones too."""
    both = pl.concat([plan.table(table).select("name") for table in BY_NAME if plan.has(table)])
    return both.drop_nulls().unique().sort("name").head(most).collect()["name"]
