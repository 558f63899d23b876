"""What a write and a read cost does not grow with the versions that a store has."""

from collections import Counter
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
import pytest

from penstock.engine.store import delta_rs_tables as delta_rs_logs
from penstock.engine.store import delta_table
from penstock.engine.store.delta_rs_tables import FILES_OF_A_LEVEL, DeltaRsTables, files_to_merge
from penstock.engine.store.plan_versions import (
    VersionNotes,
    find_version,
    list_versions,
    repair_if_damaged,
    repair_manifest,
)
from penstock.engine.store.store_location import MANIFEST
from penstock.engine.store.vacuum_store import drop_version
from tests.engine.store.arrow_plans import names, plan_of, write

MANY = 2 * FILES_OF_A_LEVEL + 5


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> str:
    """MANY versions, each of another topology."""
    path = str(tmp_path_factory.mktemp("many") / "store")
    for number in range(1, MANY + 1):
        assert write(path, plan_of(**{f"t{number}": "1"})) == number
    return path


@pytest.fixture
def done(monkeypatch) -> Counter[str]:
    """How often the manifest, notes, and logs of other tables are read."""
    counted: Counter[str] = Counter()

    def count(owner: object, name: str, what: str) -> None:
        function = getattr(owner, name)

        def counting(*given: object, **named: object) -> object:
            found = function(*given, **named)
            counted[what] += found is not None
            return found

        monkeypatch.setattr(owner, name, counting)

    count(DeltaRsTables, "read_manifest", "manifest")
    count(delta_rs_logs, "whole_rows", "whole rows")
    count(VersionNotes, "_read", "notes")
    count(delta_table, "open_newest", "logs")
    return counted


def manifest_files(store: str) -> list[str]:
    return deltalake.DeltaTable(f"{store}/{MANIFEST}").file_uris()


@pytest.mark.slow
def test_the_manifest_has_few_files_and_all_rows(store):
    files = manifest_files(store)
    assert len(files) < FILES_OF_A_LEVEL + 2
    assert sum(pq.read_metadata(file).num_rows for file in files) == MANY
    assert [version.version for version in list_versions(DeltaRsTables(store))] == [*range(1, MANY + 1)]
    assert [names(store, number) for number in (1, 20, MANY)] == [{"t1"}, {"t20"}, {f"t{MANY}"}]
    assert repair_manifest(store) == []


def test_a_version_is_found_without_the_rows_and_notes_of_others(store, done):
    for number in (None, 3):
        done.clear()
        assert find_version(DeltaRsTables(store), number).version == (number or MANY)
        assert done == {"manifest": 1, "whole rows": 1, "notes": 1}


@pytest.mark.slow
def test_a_write_reads_the_manifest_to_look_to_insert_and_to_see_it_there(tmp_path, done):
    store = str(tmp_path / "store")
    costs = []
    for number in range(1, FILES_OF_A_LEVEL + 4):
        done.clear()
        assert write(store, plan_of(**{f"t{number}": "1"})) == number
        costs.append(dict(done))
    assert costs[5] == costs[-1]
    assert costs[-1]["manifest"] <= 3
    assert costs[-1]["notes"] <= 8
    assert costs[-1]["logs"] <= 10  # of two tables


def test_an_unchanged_write_reads_one_row(store, done):
    assert write(store, plan_of(**{f"t{MANY}": "1"})) == MANY
    assert done["manifest"] == 1
    assert done["notes"] <= 3


def test_a_writer_killed_before_its_note_costs_the_next_one_no_look_at_all_versions(store, done):
    note = Path(f"{store}/{MANIFEST}/_versions/{MANY:020}")
    before = note.read_bytes()
    note.unlink()
    assert repair_if_damaged(DeltaRsTables(store)) == []
    assert note.read_bytes() == before
    assert done["notes"] <= 4


@pytest.mark.slow
def test_dropped_versions_stay_so_when_files_are_merged(tmp_path):
    store = str(tmp_path / "store")
    for number in range(1, FILES_OF_A_LEVEL):
        write(store, plan_of(**{f"t{number}": "1"}))
    drop_version(DeltaRsTables(store), 2)
    for number in range(FILES_OF_A_LEVEL, 2 * FILES_OF_A_LEVEL):
        assert write(store, plan_of(**{f"t{number}": "1"})) == number
    found = [version.version for version in list_versions(DeltaRsTables(store))]
    assert found == [1, *range(3, 2 * FILES_OF_A_LEVEL)]


@pytest.mark.parametrize(
    ("rows", "merged"),
    [
        ([], 0),
        ([1] * 14, 0),
        ([1] * 15, 15),
        ([1] * 14 + [16], 0),
        ([1] * 15 + [16] * 14, 15),
        ([1] * 15 + [16] * 15, 30),
        ([1] * 15 + [16] * 15 + [256] * 15 + [4096], 45),
        ([5_000] + [3] * 15, 15),
        ([None] * 15, 15),
    ],
)
def test_files_are_merged_as_digits_are_carried(rows, merged):
    files = {f"{place}": count for place, count in enumerate(rows)}
    assert len(files_to_merge(files)) == merged


def test_a_manifest_of_ten_thousand_rows_has_few_files():
    files: dict[str, int | None] = {}
    for number in range(10_000):
        gone = files_to_merge(files)
        files[f"{number}"] = 1 + sum(files.pop(file) or 0 for file in gone)
    assert sum(count or 0 for count in files.values()) == 10_000
    assert len(files) < 4 * FILES_OF_A_LEVEL


def test_damage_of_a_row_is_told_by_whoever_reads_it(tmp_path: Path):
    store = str(tmp_path / "store")
    for number in (1, 2):
        write(store, plan_of(**{f"t{number}": "1"}))
    delta = DeltaRsTables(store)
    delta.set_state(find_version(delta, 1).write_id, "abandoned")
    assert find_version(delta, None).version == 2
    with pytest.raises(Exception, match="version 1"):
        find_version(delta, 1)
