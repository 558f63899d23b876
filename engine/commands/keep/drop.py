"""`penstock drop`: versions that nobody needs any more."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from penstock.engine.commands.keep.vacuum import given_age
from penstock.engine.commands.reads_plan import reads_store
from penstock.engine.output.pieces import Styled
from penstock.engine.output.say import say, say_beside_output
from penstock.engine.store.plan_versions import find_version, list_versions, tables_of
from penstock.engine.store.vacuum_store import drop_version
from penstock.engine.store.version_notes import PlanVersion
from penstock.plans.errors import ConfigurationError


@reads_store
def command(
    store: Annotated[str, typer.Argument(metavar="STORE[@N]", help="A plan store, or one version of it.")],
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="The same as STORE@V.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Every version that was published longer ago, such as 30d or 12h, but the newest. With "
            "STORE@N: only if it is that old.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Name the versions; drop none.")] = False,
) -> None:
    """Drop versions of a store: nobody who opens it from now on sees them, and their numbers are not reused.

    Who reads a version already goes on reading. The disk space comes back with penstock vacuum.
    """
    if version is None and older_than is None:
        raise ConfigurationError(
            f"{store}: found no version to drop", f"name one: {store}@1, or --older-than 30d"
        )
    delta = tables_of(store)
    chosen = _chosen(
        list_versions(delta) if version is None else [find_version(delta, version)],
        None if older_than is None else given_age(older_than, "--older-than"),
        keep_newest=version is None,
    )
    for plan_version in chosen:
        if not dry_run and plan_version.version is not None:
            drop_version(delta, plan_version.version)
        say(f"{store}: version {plan_version.version} of {plan_version.published_at:%Y-%m-%d %H:%M} UTC "
            f"{'would be' if dry_run else 'is'} dropped")  # fmt: skip
    if not chosen:
        say(f"{store}: no version is that old")
    elif not dry_run:
        say_beside_output(Styled(f"penstock vacuum {store} gives the disk space back", "dim"))


def _chosen(versions: list[PlanVersion], age: timedelta | None, *, keep_newest: bool) -> list[PlanVersion]:
    before = None if age is None else datetime.now(UTC) - age
    listed = versions[:-1] if keep_newest else versions
    return [plan_version for plan_version in listed if before is None or plan_version.published_at < before]
