"""`penstock vacuum`: disk space of what no version of a store has any more."""

from datetime import timedelta
from typing import Annotated

import typer

from penstock.engine.commands.reads_plan import reads_store
from penstock.engine.output.pieces import Styled
from penstock.engine.output.say import say, say_beside_output
from penstock.engine.store.is_local import is_local
from penstock.engine.store.plan_versions import tables_of
from penstock.engine.store.vacuum_store import Vacuumed, vacuum_store
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.flink_values import parse_duration

# Ages as options name them.


def given_age(text: str, option: str) -> timedelta:
    """A time such as 30d, 12h or 0s. Raises ConfigurationError."""
    try:
        return timedelta(milliseconds=parse_duration(text))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{option} {text!r}: {error}", "a time such as 30d, 12h or 0s") from None


DEFAULT_RETAIN = "1d"
_MEBIBYTE = 2**20


@reads_store
def command(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A plan store on this machine.")],
    retain: Annotated[
        str,
        typer.Option(
            "--retain",
            metavar="AGE",
            help="Keep what was dropped less long ago: readers that had begun before a drop have that long "
            "to end. 0s: where nobody reads the store.",
        ),
    ] = DEFAULT_RETAIN,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed.")] = False,
) -> None:
    """Remove the files of versions that were dropped, and of writes that were given up.

    Readers never open a dropped version, so only those that had begun before the drop read its files, and
    --retain gives them time. Writers that are at work are left alone.
    """
    if not is_local(store):
        raise ConfigurationError(
            f"{store}: found a store that is not on this machine, allowed local ones",
            "Delta's VACUUM gives back the space of its tables",
        )
    age = given_age(retain, "--retain")
    removed: list[Vacuumed] = []
    waiting: list[Vacuumed] = []
    for vacuumed in vacuum_store(tables_of(store), age.total_seconds(), remove=not dry_run):
        (waiting if vacuumed.waits else removed).append(vacuumed)
    word = "would be removed" if dry_run else "removed"
    say(f"{store}: {_sum(removed)} {word}")
    if waiting:
        say_beside_output(Styled(f"{_sum(waiting)} dropped less than {retain} ago: --retain", "dim"))


def _sum(writes: list[Vacuumed]) -> str:
    versions = ", ".join(str(write.version) for write in writes if write.version is not None)
    named = f" of versions {versions}" if versions else ""
    size = sum(write.bytes for write in writes) / _MEBIBYTE
    return f"{sum(write.files for write in writes):,} files with {size:,.1f} MiB{named}"
