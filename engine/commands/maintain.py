"""The commands `penstock vacuum`, `penstock drop` and `penstock verify`, which maintain stores."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.commands.reads_plan import reads_store
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.store.data_files import Damage, damaged, find_damage
from penstock.engine.store.open_plan import tables_of
from penstock.engine.store.plan_versions import find_version, list_versions, repair_manifest
from penstock.engine.store.store_location import is_local, store_errors
from penstock.engine.store.store_tables import PlanVersion, Rows, StoreTables
from penstock.engine.store.vacuum_store import VacuumedWrite, drop_version, remove_unfinished, vacuum_store
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.flink_options import parse_duration

# `penstock vacuum`: free the disk space of files that no version of a store uses any more.


def _given_age(text: str, option: str) -> timedelta:
    """Parse a duration such as 30d, 12h or 0s. Raises ConfigurationError."""
    try:
        return timedelta(milliseconds=parse_duration(text))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{option} {text!r}: {error}", "give a duration such as 30d, 12h or 0s"
        ) from None


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
            help="Keep files that were dropped less than AGE ago, for readers that began before the "
            "drop. 0s: if the store has no readers.",
        ),
    ] = DEFAULT_RETAIN,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
) -> None:
    """Remove the files of dropped versions and of abandoned writes.

    Rows that killed commands left more than seven days ago are removed first. Nobody opens a dropped version,
    so only readers that had opened it before read its files; --retain gives them time. Writers at work are
    left alone.

    Examples:
        penstock vacuum plans --dry-run
        penstock vacuum plans --retain 2h

    Exit codes:
        4: Not a store.
    """
    if not is_local(store):
        raise ConfigurationError(
            f"{store}: must be a store on this machine",
            "Delta's VACUUM frees the space of its tables",
        )
    age = _given_age(retain, "--retain")
    delta = tables_of(store)
    if not dry_run and (unfinished := remove_unfinished(delta)):
        print_line(f"{store}: {len(unfinished):,} unfinished writes and drops cleaned up")
    removed: list[VacuumedWrite] = []
    waiting: list[VacuumedWrite] = []
    for vacuumed in vacuum_store(delta, age.total_seconds(), remove=not dry_run):
        (waiting if vacuumed.waits else removed).append(vacuumed)
    word = "would be removed" if dry_run else "removed"
    print_line(f"{store}: {_sum(removed)} {word}")
    if waiting:
        print_beside_output(StyledText(f"{_sum(waiting)} dropped less than {retain} ago: --retain", "dim"))


def _sum(writes: list[VacuumedWrite]) -> str:
    versions = ", ".join(str(write.version) for write in writes if write.version is not None)
    named = f" of versions {versions}" if versions else ""
    size = sum(write.bytes for write in writes) / _MEBIBYTE
    return f"{sum(write.files for write in writes):,} files with {size:,.1f} MiB{named}"


# `penstock drop`: drop versions of a store.


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
            help="Every version published longer ago than this, such as 30d or 12h, except the newest. With "
            "STORE@N: only if it is that old.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the versions.")] = False,
) -> None:
    """Drop versions of a store: they can no longer be opened, and their numbers are not reused.

    Readers of a version go on reading. penstock vacuum frees the disk space.

    Examples:
        penstock drop plans@3
        penstock drop plans --older-than 30d

    Exit codes:
        4: Not a store, or no such version.
    """
    if version is None and older_than is None:
        raise ConfigurationError(
            f"{store}: a version or an age is required", f"name one: {store}@1, or --older-than 30d"
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
        print_beside_output(StyledText(f"penstock vacuum {store} frees the disk space", "dim"))


def _chosen(versions: list[PlanVersion], age: timedelta | None, *, keep_newest: bool) -> list[PlanVersion]:
    before = None if age is None else datetime.now(UTC) - age
    listed = versions[:-1] if keep_newest else versions
    return [plan_version for plan_version in listed if before is None or plan_version.published_at < before]


@reads_store
def verify_command(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A plan store that penstock plan wrote.")],
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="First rebuild the list of versions if it is damaged."),
    ] = False,
) -> None:
    """Read all files of a version, and compare rows and checksums with those that were written.

    Damage is listed by table and file. On a file system that is not local, the tables' logs are compared:
    that file system checks bytes itself.

    --repair restores table plan_versions of a local store, from the notes of each version. Damage to the
    tables of a version is repaired by planning again.

    Examples:
        penstock verify plans
        penstock verify plans --repair

    Exit codes:
        4: Damaged, or not a store.
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
        table_damage = [damaged_table for damaged_table in damage if damaged_table.table == table]
        if not table_damage:
            rows.append((table, "sound" if recorded else "not recorded", "", ""))
        rows += [
            (table, "damaged", damaged_table.file or "", damaged_table.problem)
            for damaged_table in table_damage
        ]
    print_table([Column(header) for header in ("table", "state", "file", "problem")], rows)


def _summary(version: PlanVersion) -> str:
    if version.files is None:
        return f"version {version.version}: checksums were not recorded; its files can be read"
    rows, size = (sum(getattr(file, name) or 0 for file in version.files) for name in ("rows", "bytes"))
    return (
        f"version {version.version} is sound: {len(version.files):,} files, {rows:,} rows, {size:,} bytes "
        f"in {len(version.tables):,} tables"
    )


# Every table of a version, compared with the record of its files.


def verify_version(delta: StoreTables[Rows], version: int | None = None) -> tuple[PlanVersion, list[Damage]]:
    """Return the version, by default the newest, and all damage to its tables.

    Reads every file of a local store. Raises StoreError if it is not a store, has no such version, or its
    manifest is damaged.
    """
    with store_errors(delta.store, "reading"):
        plan_version = find_version(delta, version)
        return plan_version, find_damage(delta, plan_version, plan_version.tables)
