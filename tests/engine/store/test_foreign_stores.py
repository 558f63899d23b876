"""A store that others have written deletes nothing outside of itself."""

import os

import pytest

from penstock.engine.store.plan_versions import VersionNotes
from penstock.engine.store.store_location import locate
from penstock.engine.store.store_tables import began_at, is_write_id
from penstock.engine.store.vacuum_store import writes_in_folders
from penstock.engine.store.write_plan import new_write_id, remove_files

PATHS = ("x/../../../victim", "../victim", "/victim", "20200101T000000.000000Z-../../victim", "", ".", "a b")


def test_ids_have_one_form():
    made = new_write_id()
    assert is_write_id(made)
    assert began_at(made) is not None
    assert [one for one in (*PATHS, made + "\n", made[:-1] + "A") if is_write_id(one)] == []
    assert began_at("99999999T999999.999999Z-0123456789ab") is None


@pytest.mark.parametrize("write_id", PATHS)
def test_nothing_is_removed_for_what_is_no_id(tmp_path, write_id):
    store = tmp_path / "store"
    for folder in ("topologies/write_id=x", "plan_versions/_versions/.x", "victim"):
        (store / folder).mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    remove_files(locate(str(store)), ["topologies"], write_id)
    VersionNotes(locate(str(store))).drop_staged(write_id)
    assert sorted(tmp_path.rglob("*")) == before
    assert writes_in_folders(locate(str(store))) == set()


def test_no_link_is_followed(tmp_path):
    store, victim, write_id = tmp_path / "store", tmp_path / "victim", new_write_id()
    for folder in (f"write_id={write_id}", "inner"):
        (victim / folder).mkdir(parents=True)
        (victim / folder / "file").write_text("x")
    (victim / f".{write_id}").write_text("x")
    store.mkdir()
    (store / "topologies").symlink_to(victim)
    (store / "operators").mkdir()
    (store / "operators" / f"write_id={write_id}").symlink_to(victim / "inner")
    (store / "plan_versions").mkdir()
    (store / "plan_versions" / "_versions").symlink_to(victim)
    before = sorted(victim.rglob("*"))
    remove_files(locate(str(store)), ["topologies", "operators"], write_id)
    VersionNotes(locate(str(store))).drop_staged(write_id)
    assert sorted(victim.rglob("*")) == before


def test_a_staged_note_is_of_the_write_that_it_is_named_by(tmp_path):
    notes = tmp_path / "plan_versions" / "_versions"
    notes.mkdir(parents=True)
    (notes / ".x").write_text("x")
    (notes / f".{new_write_id()}").write_text("damaged")
    assert VersionNotes(locate(str(tmp_path))).staged() == []
    assert len(os.listdir(notes)) == 2
