"""`penstock verify`: whether a version is as it was written."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.commands.reads_plan import reads_store
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import Styled
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.store.data_files import Damage, damaged
from penstock.engine.store.is_local import is_local
from penstock.engine.store.plan_versions import find_version, list_versions, tables_of
from penstock.engine.store.repair_manifest import find_damage, repair_manifest
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.store_tables import Rows, StoreTables
from penstock.engine.store.vacuum_store import Vacuumed, drop_version, remove_unfinished, vacuum_store
from penstock.engine.store.version_notes import PlanVersion
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.flink_options import parse_duration

# `penstock vacuum`: disk space of what no version of a store has any more.


# Ages as options name them.


def _given_age(text: str, option: str) -> timedelta:
    """A time such as 30d, 12h or 0s. Raises ConfigurationError."""
    try:
        return timedelta(milliseconds=parse_duration(text))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{option} {text!r}: {error}", "a time such as 30d, 12h or 0s") from None


DEFAULT_RETAIN = "1d"
_MEBIBYTE = 2**20


@reads_store
def vacuum_command(
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

    Rows that killed commands left behind more than seven days ago are removed first.

    Readers never open a dropped version, so only those that had begun before the drop read its files, and
    --retain gives them time. Writers that are at work are left alone.
    """
    if not is_local(store):
        raise ConfigurationError(
            f"{store}: found a store that is not on this machine, allowed local ones",
            "Delta's VACUUM gives back the space of its tables",
        )
    age = _given_age(retain, "--retain")
    delta = tables_of(store)
    if not dry_run and (unfinished := remove_unfinished(delta)):
        print_line(f"{store}: {len(unfinished):,} unfinished writes and drops cleaned up")
    removed: list[Vacuumed] = []
    waiting: list[Vacuumed] = []
    for vacuumed in vacuum_store(delta, age.total_seconds(), remove=not dry_run):
        (waiting if vacuumed.waits else removed).append(vacuumed)
    word = "would be removed" if dry_run else "removed"
    print_line(f"{store}: {_sum(removed)} {word}")
    if waiting:
        print_beside_output(Styled(f"{_sum(waiting)} dropped less than {retain} ago: --retain", "dim"))


def _sum(writes: list[Vacuumed]) -> str:
    versions = ", ".join(str(write.version) for write in writes if write.version is not None)
    named = f" of versions {versions}" if versions else ""
    size = sum(write.bytes for write in writes) / _MEBIBYTE
    return f"{sum(write.files for write in writes):,} files with {size:,.1f} MiB{named}"


# `penstock drop`: versions that nobody needs any more.


@reads_store
def drop_command(
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
        None if older_than is None else _given_age(older_than, "--older-than"),
        keep_newest=version is None,
    )
    for plan_version in chosen:
        if not dry_run and plan_version.version is not None:
            drop_version(delta, plan_version.version)
        published = f"{plan_version.published_at:%Y-%m-%d %H:%M} UTC"
        done = "would be" if dry_run else "is"
        print_line(f"{store}: version {plan_version.version} of {published} {done} dropped")
    if not chosen:
        print_line(f"{store}: no version is that old")
    elif not dry_run:
        print_beside_output(Styled(f"penstock vacuum {store} gives the disk space back", "dim"))


def _chosen(versions: list[PlanVersion], age: timedelta | None, *, keep_newest: bool) -> list[PlanVersion]:
    before = None if age is None else datetime.now(UTC) - age
    listed = versions[:-1] if keep_newest else versions
    return [plan_version for plan_version in listed if before is None or plan_version.published_at < before]


@reads_store
def verify_command(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="A plan store that penstock plan has written.")
    ],
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="First make the list of versions again if it is damaged."),
    ] = False,
) -> None:
    """Read every file of a version, and compare rows and checksums with those that were written.

    Damage is listed by table and file, and the exit code is 4. Of versions that older Penstocks have written,
    which recorded neither, "not recorded" is said, and only what shows without that is checked. On a file
    system that is not local, the tables' logs are compared: bytes are checked by that file system.

    --repair mends table plan_versions of a local store, from the notes that each version has in it. Damage to
    the tables of a version is mended by planning again.
    """
    if repair:
        for sentence in repair_manifest(store):
            print_line(sentence)
    plan_version, damage = verify_version(tables_of(store), version)
    _print_tables(plan_version.tables, plan_version.files is not None, damage)
    if damage:
        raise damaged(store, plan_version.version, damage)
    print_line(_summary(plan_version))


def _print_tables(tables: tuple[str, ...], recorded: bool, damage: list[Damage]) -> None:
    rows = []
    for table in tables:
        own = [damaged_table for damaged_table in damage if damaged_table.table == table]
        if not own:
            rows.append((table, "sound" if recorded else "not recorded", "", ""))
        rows += [(table, "damaged", damaged_table.file or "", damaged_table.problem) for damaged_table in own]
    print_table([Column(header) for header in ("table", "state", "file", "what")], rows)


def _summary(version: PlanVersion) -> str:
    if version.files is None:
        return f"version {version.version}: not recorded what was written; what is there can be read"
    rows, size = (sum(getattr(file, name) or 0 for file in version.files) for name in ("rows", "bytes"))
    return (
        f"version {version.version} is sound: {len(version.files):,} files, {rows:,} rows, {size:,} bytes "
        f"in {len(version.tables):,} tables"
    )


# Every table of a version of a store, compared with what was written.


def verify_version(delta: StoreTables[Rows], version: int | None = None) -> tuple[PlanVersion, list[Damage]]:
    """The version (default: the newest) and all damage to its tables.

    Every file of a local store is read. Raises StoreError: not a store, no such version, a damaged manifest.
    """
    with store_errors(delta.store, "reading"):
        plan_version = find_version(delta, version)
        return plan_version, find_damage(delta, plan_version, plan_version.tables)
