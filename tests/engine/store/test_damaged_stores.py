"""Damage to a store is said: no command answers as if nothing were, and planning again mends the store."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.store import open_plan as opening
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.delta_table import to_table
from penstock.engine.store.open_plan import read_plan
from penstock.engine.store.plan_versions import find_version
from penstock.engine.store.spark_tables import SparkTables
from penstock.engine.store.store_location import MANIFEST
from penstock.engine.store.store_tables import PLAN_VERSIONS, delta_schema, stored_columns
from penstock.plans.errors import StoreError
from penstock.plans.tables import TABLES
from tests.engine.store.arrow_plans import names, spark_write
from tests.engine.store.damage import DAMAGE, flip_middle, logs
from tests.engine.store.tables_from_golden import golden_lines

LINES = golden_lines(Path(__file__).parent / "golden" / "random.jsonl.gz")
LINES = [*LINES[:3], next(line for line in LINES if "error" in line["expected"])]
NAME = "t-000002"
COMMANDS = (
    ("show",),
    ("show", "--topology", NAME),
    ("export",),
    ("rejected",),
    ("size",),
    ("edges", "--topology", NAME),
    ("verify",),
)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    assert "Traceback" not in result.output
    assert "panicked" not in result.output
    return result.exit_code, result.output


def plan(folder: Path, lines: int, *options: str) -> tuple[int, str]:
    file = folder / f"{lines}.jsonl"
    file.write_text("\n".join(json.dumps(line["topology"]) for line in LINES[:lines]))
    return run("plan", str(file), "--out", str(folder / "store"), "--planner", "columnar", *options)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two versions."""
    folder = tmp_path_factory.mktemp("planned")
    assert plan(folder, 2)[0] == plan(folder, len(LINES))[0] == 0
    return folder


@pytest.fixture(scope="module")
def answers(planned: Path) -> dict[tuple[str, ...], tuple[int, str]]:
    """What commands say of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(planned)
        return {command: run(command[0], "store", *command[1:]) for command in COMMANDS}


@pytest.fixture
def sound(planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a copy of it."""
    monkeypatch.chdir(shutil.copytree(planned, tmp_path, dirs_exist_ok=True))
    return tmp_path


FEW_TABLES = ("--until", "stream_graph")


@pytest.fixture(scope="module")
def planned_in_few_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `planned`, up to the stream graph."""
    folder = tmp_path_factory.mktemp("few")
    assert plan(folder, 2, *FEW_TABLES)[0] == plan(folder, len(LINES), *FEW_TABLES)[0] == 0
    return folder


@pytest.fixture(scope="module")
def few_answers(planned_in_few_tables: Path) -> dict[str, tuple[int, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(planned_in_few_tables)
        return {command: run(command, "store") for command in ("export", "verify")}


@pytest.mark.slow
@pytest.mark.parametrize("table", ["stream_nodes", MANIFEST])
@pytest.mark.parametrize("how", DAMAGE)
def test_what_is_damaged_is_not_answered_from_and_planning_again_mends_it(
    planned_in_few_tables: Path,
    few_answers: dict[str, tuple[int, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    table: str,
):
    monkeypatch.chdir(shutil.copytree(planned_in_few_tables, tmp_path, dirs_exist_ok=True))
    DAMAGE[how](tmp_path / "store" / table)
    found = [run("export", "store"), run("verify", "store")]
    if [code for code, _ in found] != [4, 4]:
        # Bytes of the manifest that say nothing, such as statistics.
        assert (how, table) == ("middle flipped", MANIFEST)
        assert found == [few_answers["export"], few_answers["verify"]]
    if how == "table deleted" and table == MANIFEST:
        assert "table plan_versions, which lists its versions, is lost" in found[0][1]
    code, said = plan(tmp_path, len(LINES), *FEW_TABLES)
    if code:  # without its notes too, nobody knows the versions any more
        assert (code, table) == (4, MANIFEST)
        assert how in ("table is a file", "table deleted")
        assert "restore that table" in said
    else:
        assert run("verify", "store")[0] == 0
        assert run("export", "store") == few_answers["export"]


@pytest.mark.parametrize("table", ["topologies", "stream_edges", "required_slots"])
def test_every_command_checks_what_it_reads(
    sound: Path, answers: dict[tuple[str, ...], tuple[int, str]], table: str
):
    DAMAGE["last log deleted"](sound / "store" / table)
    for command in COMMANDS:
        found = run(command[0], "store", *command[1:])
        assert found[0] == 4 or (found == answers[command] and command[0] != "verify")


@pytest.mark.slow
@pytest.mark.parametrize("table", sorted(TABLES.keys() - {"executions", "runs"}))
def test_every_table_is_checked(sound: Path, table: str):
    DAMAGE["table deleted"](sound / "store" / table)
    with pytest.raises(StoreError, match=f"version 2 is damaged: table {table}: the table is missing"):
        opening.open_plan("store").table(table)


def test_older_versions_stay_readable(sound: Path):
    store = "store"
    before = run("export", store, "--version", "1")
    DAMAGE["last log deleted"](sound / "store" / MANIFEST)
    assert run("export", store, "--version", "1") == before
    assert run("verify", store, "--version", "1")[0] == 0
    assert (plan(sound, len(LINES))[0], run("verify", store)[0]) == (0, 0)
    assert find_version(DeltaRsTables(store), None).version == 2


@pytest.mark.slow
@pytest.mark.parametrize("how", ["first log deleted", "a folder", "a loop", "garbled", "log a file"])
def test_a_table_that_no_longer_opens_is_kept_beside_the_new_one(sound: Path, how: str):
    table = sound / "store" / "job_edges"
    if how == "first log deleted":
        DAMAGE[how](table)
    elif how == "log a file":
        shutil.rmtree(table / "_delta_log")
        (table / "_delta_log").write_bytes(b"x")
    else:
        last = logs(table)[-1]
        last.unlink()
        if how == "garbled":
            last.write_bytes(b"\xff\0{")
        elif how == "a loop":
            last.symlink_to(last)
        else:
            last.mkdir()
    assert plan(sound, len(LINES))[0] == 0
    assert os.path.lexists(sound / "store" / "job_edges.damaged-1" / "_delta_log")
    assert run("verify", "store")[0] == 0


def as_written_before(store: Path) -> None:
    """Files are not recorded: the manifest as older Penstocks wrote it."""
    path = str(store / MANIFEST)
    rows = to_table(DeltaTable(path).scan(PLAN_VERSIONS.names[:-2]))
    shutil.rmtree(path)
    schema = Schema.from_json(json.dumps(delta_schema(pa.schema(list(PLAN_VERSIONS)[:-2]))))
    DeltaTable.create(path, schema, configuration={"delta.isolationLevel": "Serializable"})
    write_deltalake(path, rows, mode="append")


@pytest.mark.slow
def test_stores_of_older_penstocks_are_read_checked_as_far_as_can_be_and_written_to(sound: Path):
    store = sound / "store"
    before = run("export", str(store))
    as_written_before(store)
    assert run("export", str(store)) == before
    code, said = run("verify", str(store))
    assert (code, said.count("not recorded")) == (
        0,
        len(find_version(DeltaRsTables(str(store)), None).tables) + 1,
    )
    assert plan(sound, len(LINES))[0] == 0
    found = find_version(DeltaRsTables(str(store)), None)
    assert (found.version, found.files is None) == (3, False)
    as_written_before(store)
    for how in ("file cut", "footer flipped", "file deleted"):
        DAMAGE[how](store / "topologies")
        assert [run(command, str(store))[0] for command in ("export", "verify")] == [4, 4]


def test_what_cannot_be_decoded_is_said_even_if_no_checksum_tells(
    sound: Path, monkeypatch: pytest.MonkeyPatch
):
    as_written_before(sound / "store")
    DAMAGE["start flipped"](sound / "store" / "stream_nodes")
    code, said = run("export", "store")
    assert (code, "it cannot be decoded" in said) == (4, True)
    # As a file that is damaged between the check and the read.
    monkeypatch.setattr(opening, "require_intact", lambda *_: None)
    code, said = run("export", "store")
    assert (code, "reading store failed" in said) == (4, True)


@pytest.fixture(scope="module")
def made_by_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spark") / "store"
    spark_write(spark, path, "1")
    return path


@pytest.fixture
def spark_store(made_by_spark: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made_by_spark, tmp_path / "store"))


def test_spark_records_files_and_both_check_them(spark: SparkSession, spark_store: Path):
    (file,) = find_version(DeltaRsTables(str(spark_store)), None).files or ()
    assert (file.table, file.rows, len(file.checksum or "")) == ("topologies", 1, 32)
    flip_middle(spark_store / "topologies")
    for read in (
        lambda: read_plan(SparkTables(spark, str(spark_store))),
        lambda: read_plan(DeltaRsTables(str(spark_store))),
    ):
        with pytest.raises(StoreError, match=r"version 1 is damaged: table topologies: .*its bytes"):
            read()
    assert spark_write(spark, spark_store, "1") == 2
    assert names(str(spark_store)) == {"a"}


def test_spark_makes_tables_where_a_creation_was_cut_off(spark: SparkSession, tmp_path: Path):
    for table in ("topologies", MANIFEST):
        (tmp_path / "store" / table / "_delta_log").mkdir(parents=True)
    assert spark_write(spark, tmp_path / "store", "1") == 1
    assert names(str(tmp_path / "store")) == {"a"}


def test_a_file_that_may_not_be_read_is_no_damage(sound: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("penstock.engine.store.data_files.checksum", refuse)
    for command in ("show", "verify"):
        code, said = run(command, "store")
        assert (code, "reading store: Permission denied" in said) == (8, True)


def test_remote_stores_are_checked_by_their_logs(
    spark: SparkSession, spark_store: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("penstock.engine.store.store_location.is_local", lambda _: False)
    assert spark_write(spark, spark_store, "2") == 2
    (file,) = find_version(DeltaRsTables(str(spark_store)), None).files or ()
    assert (file.rows, file.checksum) == (1, None)
    assert run("verify", str(spark_store))[0] == 0
    DAMAGE["last log deleted"](spark_store / "topologies")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    for command in ("rejected", "verify", "export"):
        code, said = run(command, str(spark_store))
        assert (code, "has lost it" in said) == ((0, False) if command == "rejected" else (4, True))


def test_stores_with_columns_of_another_penstock_are_read_but_not_written_to(tmp_path: Path):
    assert plan(tmp_path, 2)[0] == 0
    store, folder = str(tmp_path / "store"), tmp_path / "store" / "job_settings"
    shutil.copytree(folder, tmp_path / "kept")
    before = run("export", store)
    columns = [
        pa.field("checkpointing_refusal", f.type) if f.name == "setting_refusals" else f
        for f in stored_columns("job_settings")
    ]
    rows = to_table(DeltaTable(folder).scan())
    shutil.rmtree(folder)
    schema = Schema.from_json(json.dumps(delta_schema(pa.schema(columns))))
    DeltaTable.create(folder, schema, partition_by=["write_id"])
    names_then = ["checkpointing_refusal" if n == "setting_refusals" else n for n in rows.column_names]
    write_deltalake(folder, rows.rename_columns(names_then), mode="append")
    as_written_before(tmp_path / "store")
    assert run("export", store) == before
    code, said = plan(tmp_path, 3)
    assert (code, "lacks setting_refusals, it also has checkpointing_refusal" in said) == (4, True)
    assert find_version(DeltaRsTables(store), None).version == 1
    with pytest.raises(StoreError, match="job_settings: it lacks setting_refusals"):
        read_plan(DeltaRsTables(store))
    assert len(read_plan(DeltaRsTables(store), tables=["topologies"])["topologies"]) == 2
