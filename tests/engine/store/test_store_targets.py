"""Where a store can be written to is asked before the work; a machine that refuses is said, and tidied up."""

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError
from typer.testing import CliRunner

import penstock
from penstock.engine.commands.main import app
from penstock.engine.store import delta_rs_tables
from penstock.engine.store.data_files import write_file
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.plan_versions import VersionNotes, is_store, list_versions
from penstock.engine.store.store_location import MANIFEST, Location, locate
from penstock.engine.store.write_plan import require_target
from penstock.plans.errors import MachineError, StoreError
from tests.engine.store.arrow_plans import names, plan_of, rows_in, write
from tests.plans.topology.builders import simple

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("command", ["plan", "info", "run"])
def test_a_target_that_is_no_place_for_a_store_is_refused_before_the_input_is_read(
    tmp_path: Path, command: str
):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nothing")
    (tmp_path / "full").mkdir()
    for i in range(7):
        (tmp_path / "full" / f"{i}").write_text("")
    for name, said in (
        ("file", "it is a file, not a folder"),
        ("file/below", "is a file, not a folder"),
        ("link", "a link to nothing"),
        ("full", "it contains '0', '1', '2', '3', '4' and 2 more"),
    ):
        target = str(tmp_path / name)
        ways = {
            "plan": ["plan", "no such input", "--out", target],
            "info": ["info", "--to", target, "no such script"],
            "run": ["run", "--to", target, "no such script"],
        }
        result = CliRunner().invoke(app, ways[command])
        assert result.exit_code == 4, result.output
        assert said in result.output


@pytest.mark.parametrize("named", ["store@1", "store@7/", "new@2", "s3a://bucket/store@1"])
def test_a_version_is_read_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str):
    monkeypatch.chdir(tmp_path)
    plan = penstock.plan(simple("a"))
    plan.write("store")
    store = named.partition("@")[0]
    said = f"it names version {named.rstrip('/')[-1]} of {store}, and versions never change"
    with pytest.raises(StoreError, match=said) as refused:
        plan.write(named)
    assert refused.value.hint == f"write to {store}, which adds a version"
    ways = (
        ["plan", "no such input", "--out", named],
        ["info", "--to", named, "no such script"],
        ["run", "--to", named, "no such script"],
    )
    for arguments in ways if "://" not in named else ways[:1]:
        result = CliRunner().invoke(app, arguments)
        assert (result.exit_code, said in result.output) == (4, True), result.output
    if "://" not in named:
        with pytest.raises(StoreError, match=said):
            penstock.read_plan("store").write(named)
    assert os.listdir() == ["store"]


def test_results_and_state_are_not_written_to_versions_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    said = "it names version 3 of here, and versions never change"
    with pytest.raises(StoreError, match=said):
        penstock.sweep({"topologies": {"shape": ["chain"], "operators": [3]}}, "here@3")
    with pytest.raises(StoreError, match=said):
        penstock.foreach_batch(print, state="here@3")
    assert os.listdir() == []


def test_a_store_whose_name_ends_like_a_version_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    plan = penstock.plan(simple("a"))
    plan.write("other")
    os.rename("other", "plans@2024")
    plan.write("plans@2024")
    assert penstock.read_plan("plans@2024").planned == 1
    assert os.listdir() == ["plans@2024"]


def test_generate_writes_to_no_folder_that_is_there(tmp_path: Path):
    result = CliRunner().invoke(app, ["generate", "chain", "--out", str(tmp_path)])
    assert (result.exit_code, "exists already" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("store", "path", "folder"),
    [
        ("/data/../plans/", "/data/../plans", "/plans"),
        ("file:///data/my%20plans/", "file:///data/my%20plans", "/data/my plans"),
        ("s3a://bucket/plans/", "s3a://bucket/plans", None),
    ],
)
def test_a_store_and_its_tables_have_one_place(store: str, path: str, folder: str | None):
    at = locate(store)
    assert at == Location(store, path, folder)
    assert (locate(at), f"{at}") == (at, store)
    of_table = None if folder is None else f"{folder}/runs"
    assert at.of_table("runs") == Location(f"{path}/runs", f"{path}/runs", of_table)


@pytest.mark.spark  # where a name is of no local folder, Spark is asked
@pytest.mark.parametrize("store", ["", " ", "file:", "file:/no/such", "file://", "file:///", "file://host/x"])
def test_what_names_no_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str):
    monkeypatch.chdir(tmp_path)
    for command in (["plan", "no such input", "--out", store], ["show", store], ["export", store]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code in ((4,) if "--out" in command else (3, 4)), result.output
    assert list(tmp_path.iterdir()) == []


def test_home_is_where_the_shell_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write("~/plans", plan_of(a="1"))
    assert names(str(tmp_path / "plans")) == names("~/plans") == {"a"}


def test_tables_that_somebody_gave_features_are_refused_before_the_work(tmp_path: Path):
    cases: list[tuple[str, dict[str, Any], str]] = [
        (
            "topologies",
            {"writerFeatures": ["rowTracking", "domainMetadata"]},
            "the table feature rowTracking",
        ),
        (
            "topologies",
            {"writerFeatures": ["columnMapping"], "minReaderVersion": 2},
            "feature columnMapping",
        ),
        ("topologies", {"delta.constraints.few": "topology_id < 5"}, "the CHECK constraint 'few'"),
        ("topologies", {"delta.appendOnly": "true"}, "delta.appendOnly"),
        (MANIFEST, {"writerFeatures": ["inCommitTimestamp"]}, "the table feature inCommitTimestamp"),
    ]
    for number, (table, actions, reason) in enumerate(cases):
        store = str(tmp_path / str(number))
        write(store, plan_of(a="1"))
        log = Path(store, table, "_delta_log")
        commits = [
            json.loads(line) for file in sorted(log.glob("*.json")) for line in file.read_text().splitlines()
        ]
        if "writerFeatures" in actions:
            action = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, **actions}}
        else:
            (action,) = [commit for commit in commits if "metaData" in commit]
            action["metaData"]["configuration"] |= actions
        version = len(list(log.glob("*.json")))
        (log / f"{version:020}.json").write_text(json.dumps(action))
        with pytest.raises(StoreError, match=f"table {table} has .*{reason}"):
            require_target(store)
        with pytest.raises(StoreError, match=reason):
            write(store, plan_of(b="1"))
        assert names(store) == {"a"}
    refusal = CommitFailedError("Unsupported table features required: [RowTracking]")
    assert not DeltaRsTables(store).is_conflict(refusal)  # which would be repeated


def test_new_and_empty_folders_and_stores_are_fine(tmp_path: Path):
    for name in ("new", "new/below", "empty"):
        require_target(str(tmp_path / name))
    (tmp_path / "empty" / "lost+found").mkdir(parents=True)
    require_target(str(tmp_path / "empty"))
    assert not (tmp_path / "new").exists()
    write(str(tmp_path / "store"), plan_of(a="1"))
    (tmp_path / "store" / "notes.txt").write_text("")
    require_target(str(tmp_path / "store"))


def test_what_a_killed_first_write_left_is_fine_and_tables_of_topologies_are_not(tmp_path: Path):
    store = str(tmp_path / "store")
    DeltaRsTables(store).create(MANIFEST)
    DeltaRsTables(store).append("topologies", plan_of(a="1")["topologies"], "w")
    require_target(store)
    assert write(store, plan_of(a="1")) == 1
    tables = str(tmp_path / "tables")
    write_deltalake(f"{tables}/topologies", pa.table({"name": ["a"]}))
    with pytest.raises(StoreError, match="it contains 'topologies'"):
        require_target(tables)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    def refuse(**_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(MachineError, match=os.strerror(number)):
        require_target(str(tmp_path / "store"))


@pytest.mark.parametrize("place", ["data", "manifest"])
def test_a_write_to_a_full_disk_leaves_nothing_and_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
):
    store = str(tmp_path / "store")
    write(store, plan_of(a="1"))
    before = set(Path(store).rglob("*.parquet"))

    def full(folder, *arguments):
        written = write_file(folder, *arguments)
        if (os.path.basename(folder) == MANIFEST) == (place == "manifest"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written

    with monkeypatch.context() as patch:
        patch.setattr(delta_rs_tables, "write_file", full)
        with pytest.raises(MachineError, match=r"store: No space left on device"):
            write(store, plan_of(b="1"))
    if place == "data":
        assert set(Path(store).rglob("*.parquet")) == before
    assert (names(store), rows_in(store)) == ({"a"}, 1)
    assert write(store, plan_of(b="1")) == 2


def test_an_error_after_publication_does_not_take_the_version_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = str(tmp_path / "store")

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(VersionNotes, "note", fail)
    with pytest.raises(MachineError, match="Input/output error"):
        write(store, plan_of(a="1"))
    assert ([v.version for v in list_versions(DeltaRsTables(store))], names(store)) == ([1], {"a"})


@pytest.mark.slow
def test_a_limit_of_the_machine_is_one_message_without_panics(tmp_path: Path):
    """A process whose files may not grow over 4 KiB."""
    nodes = [{"id": i, "kind": "one_input", "inputs": [i - 1], "name": f"{i}"} for i in range(2, 400)]
    topology = {"name": "a", "transformations": [{"id": 1, "kind": "source", "name": "s"}, *nodes]}
    (tmp_path / "in.jsonl").write_text(json.dumps(topology))
    code = (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from penstock.engine.commands.main import app\napp(sys.argv[1:])"
    )
    arguments = [
        "plan",
        str(tmp_path / "in.jsonl"),
        "--out",
        str(tmp_path / "store"),
        "--planner",
        "columnar",
    ]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (8, "")
    assert done.stderr == (
        f"penstock: writing {tmp_path / 'store'}: File too large\n"
        "  hint: ulimit -f limits the size of files, or the file system does\n"
    )
    assert list((tmp_path / "store").rglob("*.parquet")) == []
    assert CliRunner().invoke(app, arguments).exit_code == 0


@pytest.mark.parametrize(
    ("store", "scheme"), [("dbfs:/x", "dbfs"), ("s3:x", "s3"), ("hdfs:/a/b", "hdfs"), ("C:/x", "C")]
)
def test_a_uri_without_slashes_is_no_folder_of_that_name(tmp_path, monkeypatch, store, scheme):
    monkeypatch.chdir(tmp_path)
    planned = penstock.plan(simple("a"), until="job_graph")
    for call in (lambda: planned.write(store), lambda: penstock.open_store(store)):
        with pytest.raises(
            StoreError, match=f"must be a path of this machine.*got the URI scheme '{scheme}' without //"
        ):
            call()
    assert list(tmp_path.iterdir()) == []
    assert planned.write(f"./{store}") == 1


def test_a_scheme_that_nothing_reaches_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r"must be a path of this machine.*got the URI scheme 'foo'"):
        penstock.plan(simple("a"), until="job_graph").write("foo://host/x")


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_a_folder_without_hard_links_is_named_before_anything_is_written(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(MachineError, match=rf"file system of {tmp_path} has no hard links .*Delta tables"):
        penstock.plan(simple("a"), until="job_graph").write(tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EINVAL, errno.ENOSYS])
def test_a_folder_whose_files_do_not_reach_the_disk_is_named(tmp_path, monkeypatch, number):
    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(MachineError, match=f"fsync of {tmp_path} fails: {os.strerror(number)}"):
        penstock.plan(simple("a"), until="job_graph").write(tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\x1bb", "a[b", "a]b", "a\\b", "a%5bb", "a\nb", "a\udcff"])
def test_a_store_is_not_where_delta_cannot_have_one(tmp_path, name):
    with pytest.raises(StoreError, match="the path of a Delta table must not contain"):
        is_store(DeltaRsTables(str(tmp_path / name)))
    with pytest.raises(StoreError, match="the path of a Delta table must not contain"):
        require_target(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []
