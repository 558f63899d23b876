"""A damaged manifest is made again from the notes beside it; no damage to one file hides what was planned."""

import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.engine.store import plan_versions as repairing
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.plan_versions import VersionNotes, list_versions, repair_manifest
from penstock.engine.store.store_location import MANIFEST, locate
from penstock.engine.store.vacuum_store import drop_version
from penstock.engine.store.write_plan import write_version
from penstock.plans.errors import StoreError
from tests.engine.store.arrow_plans import names, plan_of, write
from tests.engine.store.damage import DAMAGE, flip, logs, newest_file
from tests.engine.store.test_damaged_stores import LINES, plan, run

_WITH_ITS_NOTES = {"table deleted", "table made again", "table is a file"}
"""Damage that takes the notes too."""

COMMANDS = ("show", "export", "verify")

JOB = """
from pyflink.datastream import StreamExecutionEnvironment
environment = StreamExecutionEnvironment.get_execution_environment()
environment.from_collection([1]).print()
environment.execute("job")
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two versions."""
    folder = tmp_path_factory.mktemp("planned")
    assert plan(folder, 2)[0] == plan(folder, len(LINES))[0] == 0
    return folder


@pytest.fixture
def sound(planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a copy of it."""
    monkeypatch.chdir(shutil.copytree(planned, tmp_path, dirs_exist_ok=True))
    Path("job.py").write_text(JOB)
    return tmp_path


def flip_bit(path: Path, chance: random.Random) -> None:
    held = bytearray(path.read_bytes() or b"x")
    held[chance.randrange(len(held))] ^= 1 << chance.randrange(8)
    path.write_bytes(held)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


WAYS: dict[str, Callable[[Path, random.Random], object]] = {
    "flipped": flip_bit,
    "cut": lambda path, chance: os.truncate(path, chance.randrange(path.stat().st_size or 1)),
    "removed": lambda path, _: path.unlink(),
}


@pytest.mark.slow
def test_whichever_file_is_damaged_answers_are_right_or_name_the_damage_and_planning_again_mends_it(
    sound: Path, planned: Path
):
    """Of the manifest some files, of the tables a few."""
    chance = random.Random(0)
    right = {command: run(command, "store") for command in COMMANDS}
    files = sorted(path.relative_to(planned) for path in planned.glob("store/**/*") if path.is_file())
    chosen = [path for path in files if chance.random() < (0.3 if MANIFEST in path.parts else 0.04)]
    for path in chosen:
        way = chance.choice(sorted(WAYS))
        shutil.rmtree("store")
        shutil.copytree(planned / "store", "store")
        WAYS[way](sound / path, chance)
        for command in COMMANDS:
            code, said = run(command, "store")
            assert (code, said) == right[command] or (code == 4 and "is damaged" in said), (path, way, said)
        assert plan(sound, len(LINES))[0] == 0, (path, way)
        assert (run("verify", "store")[0], run("export", "store")) == (0, right["export"]), (path, way)


@pytest.mark.slow
@pytest.mark.parametrize("how", sorted(DAMAGE.keys() - _WITH_ITS_NOTES))
def test_a_manifest_is_made_again_with_all_versions_by_verify_repair(sound: Path, how: str):
    before = list_versions(DeltaRsTables("store"))
    first = run("export", "store", "--version", "1")
    DAMAGE[how](sound / "store" / MANIFEST)
    code, said = run("show", "store")
    assert code in (0, 4), said  # 0: bytes that say nothing, such as statistics
    if code:
        assert "penstock verify store --repair" in said
        assert "table plan_versions " in run("verify", "store", "--repair")[1]
    assert list_versions(DeltaRsTables("store")) == before
    assert (run("export", "store", "--version", "1"), run("verify", "store")[0]) == (first, 0)


def test_text_of_the_manifest_that_is_not_utf_8_is_damage(sound: Path):
    newest = list_versions(DeltaRsTables("store"))[-1]
    path = newest_file(sound / "store" / MANIFEST)
    data = path.read_bytes()
    places = [found.start() for found in re.finditer(newest.write_id[:8].encode(), data)]
    codes = set()
    for place in places:  # the text itself, and statistics
        path.write_bytes(data)
        flip(path, place)
        code, said = run("show", "store")
        assert code in (0, 4), said
        codes.add(code)
    assert 4 in codes


def test_a_repair_that_is_stopped_is_repeated(sound: Path, monkeypatch: pytest.MonkeyPatch):
    before = list_versions(DeltaRsTables("store"))
    DAMAGE["last log garbage"](sound / "store" / MANIFEST)
    for step in ("_resolve_staged", "_insert"):
        with monkeypatch.context() as patch:
            patch.setattr(repairing, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                repair_manifest("store")
        assert run("show", "store")[0] == 4
    assert repair_manifest("store")
    assert list_versions(DeltaRsTables("store")) == before
    assert repair_manifest("store") == []


@pytest.mark.slow
def test_what_was_dropped_stays_dropped(tmp_path: Path):
    store = str(tmp_path / "store")
    for name in "abc":
        write(store, plan_of(**{name: "1"}))
    drop_version(DeltaRsTables(store), 2)
    shutil.rmtree(tmp_path / "store" / MANIFEST / "_delta_log")
    with pytest.raises(StoreError, match="has lost its Delta log"):
        list_versions(DeltaRsTables(store))
    repair_manifest(store)
    assert [v.version for v in list_versions(DeltaRsTables(store))] == [1, 3]
    assert write(store, plan_of(d="1")) == 4


@pytest.mark.slow
@pytest.mark.parametrize("at", ["before", "after"])
def test_a_writer_killed_around_its_publication_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
):
    """Without the manifest nobody knows whether it was published; all of it is there, so it counts."""
    store = str(tmp_path / "store")
    write(store, plan_of(a="1"))
    before, after = "delta_rs_tables.DeltaRsTables.insert_version", "plan_versions.VersionNotes.note"
    with monkeypatch.context() as patch:
        patch.setattr(f"penstock.engine.store.{before if at == 'before' else after}", interrupted)
        patch.setattr("penstock.engine.store.write_plan.discard", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            write(store, plan_of(b="1"))
    assert len(VersionNotes(locate(store)).staged()) == 1
    assert names(store) == ({"a"} if at == "before" else {"b"})
    logs(tmp_path / "store" / MANIFEST)[-1].write_bytes(b"{")
    repair_manifest(store)
    assert (names(store), VersionNotes(locate(store)).staged()) == ({"b"}, [])


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something just before the next note of a version gets its name."""
    link = os.link

    def link_afterwards(source: str, target: str) -> None:
        if "_delta_log" not in target and ".penstock-" not in target:  # commits, and what asks for links
            monkeypatch.undo()
            do()
        link(source, target)

    monkeypatch.setattr("penstock.engine.store.plan_versions.os.link", link_afterwards)


def test_a_version_that_another_writer_notes_first_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = str(tmp_path / "store")
    write(store, plan_of(a="1"))
    meanwhile(monkeypatch, lambda: repair_manifest(store))
    assert write(store, plan_of(b="1")) == 2
    assert (names(store), VersionNotes(locate(store)).staged()) == ({"b"}, [])
    assert write(store, plan_of(c="1")) == 3


@pytest.mark.slow
@pytest.mark.parametrize("who", ["its writer", "another writer"])
def test_a_version_that_is_dropped_while_it_is_noted_stays_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
):
    store = str(tmp_path / "store")
    write(store, plan_of(a="1"))
    if who == "its writer":
        meanwhile(monkeypatch, lambda: drop_version(DeltaRsTables(store), 2))
        assert write(store, plan_of(b="1")) == 2
    else:
        with monkeypatch.context() as patch:
            patch.setattr("penstock.engine.store.plan_versions.VersionNotes.note", lambda *_: None)
            assert write(store, plan_of(b="1")) == 2
        meanwhile(monkeypatch, lambda: drop_version(DeltaRsTables(store), 2))
        repair_manifest(store)
    assert [v.version for v in list_versions(DeltaRsTables(store))] == [1]
    assert (write(store, plan_of(c="1")), repair_manifest(store)) == (3, [])
    assert [v.version for v in list_versions(DeltaRsTables(store))] == [1, 3]


def test_a_store_whose_manifest_is_lost_is_left_as_it_is(sound: Path):
    """A new manifest would hide the versions that are still there, and use their numbers again."""
    right = run("export", "store")
    shutil.move("store/plan_versions", "elsewhere")
    left = sorted(path for path in sound.glob("store/**/*"))
    for said in (plan(sound, 1), run("export", "store"), run("info", "--to", "store", "job.py")):
        assert (said[0], f"table {MANIFEST}, which lists its versions, is lost" in said[1]) == (4, True)
    with pytest.raises(StoreError, match="is lost"):
        write_version(DeltaRsTables("store"), plan_of(a="1"), planner_version="1", options={})
    assert sorted(path for path in sound.glob("store/**/*")) == left
    shutil.move("elsewhere", "store/plan_versions")
    assert run("export", "store") == right


@pytest.mark.slow
def test_who_writes_to_a_store_says_what_was_repaired(sound: Path):
    DAMAGE["last log deleted"](sound / "store" / MANIFEST)
    code, said = run("info", "--to", "store", "job.py")
    assert (code, said.splitlines()[-2:]) == (
        0,
        ["version 3 of store", f"store: table {MANIFEST} has version 2 again"],
    )
    DAMAGE["last log garbage"](sound / "store" / MANIFEST)
    made = penstock.plan([LINES[0]["topology"]])
    with pytest.warns(UserWarning, match=f"store: table {MANIFEST} was damaged, and is restored"):
        assert made.write("store") == 4
