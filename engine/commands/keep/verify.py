"""`penstock verify`: whether a version is as it was written."""

from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.commands.reads_plan import reads_store
from penstock.engine.output.people import print_table
from penstock.engine.output.say import say
from penstock.engine.store.data_files import Damage, damaged
from penstock.engine.store.find_damage import find_damage
from penstock.engine.store.plan_versions import find_version, tables_of
from penstock.engine.store.repair_manifest import repair_manifest
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.store_tables import Rows, StoreTables
from penstock.engine.store.version_notes import PlanVersion


@reads_store
def command(
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
            say(sentence)
    plan_version, damage = verify_version(tables_of(store), version)
    _print_tables(plan_version.tables, plan_version.files is not None, damage)
    if damage:
        raise damaged(store, plan_version.version, damage)
    say(_summary(plan_version))


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
