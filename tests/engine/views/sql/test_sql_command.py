"""`penstock sql`: what it answers, in which forms, and what it refuses."""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import penstock
from penstock.engine.commands.main import app
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.vacuum_store import drop_version
from penstock.engine.views.run_query import in_thread, open_views
from penstock.plans.tables import TABLES
from penstock.plans.tables.view_columns import view_columns
from tests.engine.views.draw.pictures import hostile_topology
from tests.project.on_terminal import on_terminal

EXAMPLES = "engine/examples/examples.jsonl"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("sql") / "it's a store*")
    penstock.plan(EXAMPLES).write(path)
    return path


def sql(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        app(["sql", *arguments], prog_name="penstock")
    return int(end.value.code or 0)


def answered(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert sql(*arguments, "--format", "json") == 0
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def printed(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    def call() -> None:
        sql(*arguments)

    return on_terminal(call, monkeypatch)


@pytest.mark.slow
def test_every_table_has_its_rows_and_columns_under_one_name_for_each_key(store, capfd):
    plan = penstock.read_plan(store)
    tables = penstock.open_store(store).versions[-1].tables
    with open_views(open_plan(store), ", ".join(tables)) as views:
        for table in tables:
            rows = views.connection.execute(f"select * from {table}").to_arrow_table()
            assert rows.num_rows == plan.tables[table].num_rows
            assert rows.column_names == list(view_columns(table).values())
    joined = "select count(*) n from stream_edges e join chained_operators o using (topology_id)"
    joined += " join stream_nodes s using (topology_id, node) where s.node = e.target_node"
    assert answered(capfd, store, joined) == [{"n": plan.tables["stream_edges"].num_rows}]


def test_views_and_columns_are_listed_as_declared(store, capsys):
    assert sql(store, "--tables") == 0
    listed = [line.split("\t")[:2] for line in capsys.readouterr().out.splitlines()[1:]]
    tables = penstock.open_store(store).versions[-1].tables
    assert listed == [[table, name] for table in tables for name in view_columns(table).values()]
    assert all(set(view_columns(table)) == set(TABLES[table].names) for table in TABLES)


def test_every_form_holds_the_same_rows(store, tmp_path, capfd):
    query = "select topology, config, parallelism, chaining from topologies order by topology"
    rows = answered(capfd, store, query)
    assert sql(store, query, "--to", str(tmp_path / "rows.parquet")) == 0
    assert sql(store, query, "--to", str(tmp_path / "rows.jsonl.gz")) == 0
    assert sql(store, query, "--to", str(tmp_path / "rows.csv")) == 0
    parquet = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [{**row, "config": dict(row["config"])} for row in parquet] == rows
    packed = gzip.decompress((tmp_path / "rows.jsonl.gz").read_bytes()).decode()
    assert [json.loads(line) for line in packed.splitlines()] == rows
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert (lines[0], len(lines)) == ("topology,config,parallelism,chaining", len(rows) + 1)
    assert sql(store, query) == 0
    assert capfd.readouterr().out.splitlines()[0] == "topology\tconfig\tparallelism\tchaining"


def test_parquet_goes_to_a_pipe_and_json_has_no_infinity(store, capfdbinary):
    assert sql(store, "select vertex from job_vertices", "--format", "parquet") == 0
    assert pq.read_table(io.BytesIO(capfdbinary.readouterr().out)).column_names == ["vertex"]
    assert sql(store, "select 'nan'::double as n, 1e308::double * 10 as i", "--format", "json") == 0
    assert json.loads(capfdbinary.readouterr().out) == {"n": None, "i": None}
    nested = """select [1.5, 'nan'::double] as l, {'NaN': '-inf'::float, 'b': '"NaN\\'} as s"""
    assert sql(store, nested, "--format", "json") == 0
    found = json.loads(capfdbinary.readouterr().out, parse_constant=pytest.fail)
    assert found == {"l": [1.5, None], "s": {"NaN": None, "b": '"NaN\\'}}
    assert sql(store, "select {'n': 'nan'::double, 'f': 1::float} as s", "--format", "json") == 0
    assert json.loads(capfdbinary.readouterr().out, parse_constant=pytest.fail) == {"s": {"n": None, "f": 1}}


@pytest.mark.slow
def test_an_older_version_and_its_files_are_what_the_log_says(tmp_path, capfd):
    path = str(tmp_path / "store")
    topology = {"name": "a", "transformations": [{"id": 1, "kind": "source", "name": "S"}]}
    penstock.plan(topology).write(path)
    penstock.plan({**topology, "name": "b"}).write(path)
    assert answered(capfd, path, "select topology from topologies") == [{"topology": "b"}]
    assert answered(capfd, path, "select topology from topologies", "--version", "1") == [{"topology": "a"}]
    (folder,) = {file.parent for file in Path(path, "topologies").glob("*/*.parquet")} - {
        file.parent for file in Path(path, "topologies").glob("*/*.parquet") if _names(file) == ["a"]
    }
    (orphan,) = folder.glob("*.parquet")
    (folder / "orphan.parquet").write_bytes(orphan.read_bytes())
    assert answered(capfd, path, "select topology from topologies") == [{"topology": "b"}]
    drop_version(DeltaRsTables(path), 1)
    assert sql(path, "select 1", "--version", "1") == 4


def _names(file: Path) -> list[str]:
    return list(pq.ParquetFile(file).read(["name"])["name"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select id from stream_nodes", "in SQL it is stream_nodes.node"),
        ("select paralelism from job_vertices", "job_vertices.parallelism"),
        ("select v.naem from job_vertices v", "job_vertices.name"),
        ("select * from stream_node", "tables with close names: stream_nodes"),
        ("select * from topology", "tables with close names: topologies"),
        ("select topology.parallelism from topologies", "topology is a column: write topologies.COLUMN"),
        ("select * from edges", "close names: stream_edges, job_edges, execution_edges"),
        ("select * from nodes", "tables with close names: stream_nodes\n"),
        ("select * from job_graph", "job_graph is a layer, with the tables job_vertices, chained_operators"),
        ("select nam from topologies", "columns with close names: topologies.topology\n"),
        ("select operator_id from stream_nodes", "other tables have it: chained_operators.operator_id"),
        ('select * from topologies where topology = "hello"', "a text is in single quotes: 'hello'"),
        ("select * from runs", "was planned until slots and has no table runs"),
        ("selec 1", 'syntax error at or near "selec"'),
        ("", "got 0 statements"),
        ("select 1; select 2", "got 2 statements"),
        ("select 1 a, 2 a", "two columns are called 'a'"),
        ("select 'a'::int", "Could not convert string 'a'"),
        ("create table t as select 1", "QUERY must be a SELECT, got a statement of type CREATE"),
        ("set memory_limit = '9GB'", "QUERY must be a SELECT, got a statement of type SET"),
        ("install httpfs", "QUERY must be"),
        ("explain analyze select 1", "QUERY must be"),
        ("select * from read_text('/etc/passwd')", "file system operations are disabled"),
        ("select * from 'pyproject.toml'", "pyproject.toml"),
        ("select * from 'https://example.com/x.parquet'", "https"),
        ("select * from query('copy (select 1) to ''x''')", "Expected a single SELECT"),
    ],
)
def test_what_is_wrong_with_a_query_is_said_by_duckdb_with_close_names(store, query, said, capsys):
    assert sql(store, query, "--format", "json") == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert "unnamed_relation" not in error


def test_tables_beside_plans_have_close_names_too(tmp_path, capsys):
    swept = str(tmp_path / "swept")
    assert sql_of_results(swept, "select * from result", capsys) == "tables with close names: results"
    assert sql_of_results(swept, "select planer from results", capsys) == (
        "columns with close names: results.planner"
    )
    listed = "penstock sql STORE --tables lists tables and columns"
    assert sql_of_results(swept, "select * from topology", capsys) == listed


def sql_of_results(folder: str, query: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The hint for a query of a folder with the table `results`."""
    if not Path(folder).exists():
        write_deltalake(f"{folder}/results", pa.table({"planner": ["flink"], "planned": [1]}))
    assert sql(folder, query) == 2
    return capsys.readouterr().err.partition("  hint: ")[2].strip()


def test_nothing_is_written(store, tmp_path, monkeypatch, capsys):
    def files() -> dict[str, bytes]:
        return {str(file): file.read_bytes() for file in Path(store).rglob("*") if file.is_file()}

    before = files()
    (file,) = (name for name in before if "/topologies/" in name and name.endswith(".parquet"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    quoted = file.replace("'", "''")
    assert sql(store, f"copy (select topology from topologies) to '{quoted}'") == 2
    assert sql(store, f"with x as (copy (select 1) to '{quoted}') select 1 from topologies") == 2
    assert sql(store, "select * from topologies") == 0
    assert files() == before
    assert os.listdir(tmp_path) == []


def test_files_of_the_machine_and_variables_of_python_are_out_of_reach(store, tmp_path):
    with open_views(open_plan(store), "select 1") as views:
        rows = [1]  # noqa: F841
        for statement in (
            f"copy (select 1) to '{tmp_path}/x'",
            f"attach '{tmp_path}/y'",
            "load spatial",
            "set enable_external_access = true",
            "select * from rows",
        ):
            with pytest.raises(duckdb.Error):
                views.connection.execute(statement).fetchall()
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_rows_that_do_not_fit_in_memory_spill_and_nothing_stays(store, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_views(open_plan(store), "select 1", memory_bytes=2**26) as views:
        numbered = "select row_number() over (order by hash(range)) place from range(3000000)"
        assert views.connection.execute(f"select max(place) from ({numbered})").fetchall() == [(3000000,)]
    assert os.listdir(tmp_path) == []


def test_ctrl_c_stops_a_query(store, tmp_path, monkeypatch, capsys):
    from penstock.engine.machine.stop_on_signals import end_at_once_on_signals
    from tests.as_command import as_command

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with as_command():
        end_at_once_on_signals()
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert sql(store, "select count(*) from range(10000000000) a, range(100) b order by 1") == 130
    assert "interrupted" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_ctrl_c_ends_a_process_that_asks(store):
    """Of its own: polars puts its handler of signals in place when it is imported."""
    asked = [
        sys.executable,
        "-m",
        "penstock.engine.commands.main",
        "sql",
        store,
        "select sum(i) from range(30000000000) t(i)",
    ]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, said) == (130, b"penstock: interrupted\n")


def test_a_signal_before_duckdb_has_begun_stops_the_query_too():
    interrupts = threading.Semaphore(0)

    class Connection:
        def interrupt(self) -> None:
            interrupts.release()

    def interrupted_twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.acquire(timeout=30)
        assert interrupts.acquire(timeout=30)

    with pytest.raises(KeyboardInterrupt), in_thread(cast(Any, Connection())) as run:
        run(interrupted_twice)


def test_names_reach_no_terminal_raw(tmp_path, monkeypatch):
    file, path = tmp_path / "hostile.jsonl", str(tmp_path / "store")
    file.write_text(json.dumps(hostile_topology()), encoding="utf-8")
    penstock.plan(str(file)).write(path)
    for form in ("table", "csv", "json"):
        for query in ("select name, * from stream_nodes", 'select 1 as "\x1b[31m"'):
            said = printed(monkeypatch, path, query, "--format", form)
            assert "\x1b[31m" not in said


def test_a_table_on_a_terminal_is_80_columns_wide_and_says_what_is_left_out(store, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = printed(monkeypatch, store, "select * from stream_edges")
    assert max(len(re.sub(r"\x1b\[\d*m", "", line)) for line in said.splitlines()) <= 80
    said = printed(monkeypatch, store, "select range from range(5000)")
    assert "the first 1,000 rows; --format csv writes all" in said


def test_a_damaged_table_is_not_read_and_the_others_are(tmp_path, capsys):
    path = str(tmp_path / "store")
    penstock.plan(EXAMPLES).write(path)
    (file,) = Path(path, "stream_nodes").glob("*/*.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    assert sql(path, "select count(*) from stream_nodes") == 4
    assert sql(path, "select count(*) from stream_edges") == 0
    assert sql(str(tmp_path), "select 1") == 3


def test_without_duckdb_it_says_what_to_install(store, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert sql(store, "select 1") == 2
    assert "pip install 'duckdb" in capsys.readouterr().err
