"""The end of a log as a write reads it: as delta-rs does, or not at all."""

import random
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.delta_table import COMMITS_OF_A_CHECKPOINT, commit_files, read_log_tail
from penstock.engine.store.write_plan import new_write_id
from tests.engine.store.arrow_plans import topologies


def made(tmp_path: Path) -> tuple[DeltaRsTables, str]:
    delta = DeltaRsTables(str(tmp_path / "store"))
    delta.append("topologies", topologies(a="1"), new_write_id())
    return delta, str(tmp_path / "store" / "topologies")


@pytest.mark.slow
def test_a_damaged_commit_is_left_to_delta_rs_or_read(tmp_path):
    _, folder = made(tmp_path)
    commit = Path(folder, "_delta_log", f"{1:020}.json")
    text, chance, left = commit.read_bytes(), random.Random(0), 0
    for _ in range(500):
        held = bytearray(text)
        held[chance.randrange(len(held))] ^= 1 << chance.randrange(8)
        commit.write_bytes(held)
        tail = read_log_tail(folder)
        left += tail is None
        if tail is not None:
            tail.files("topologies", new_write_id())
            assert tail.has_write("another") is None
    assert 0 < left < 500


def test_a_gap_in_the_log_is_not_filled(tmp_path):
    delta, folder = made(tmp_path)
    for number in range(2, 4):
        delta.append("topologies", topologies(a=str(number)), new_write_id())
    Path(folder, "_delta_log", f"{2:020}.json").unlink()
    assert read_log_tail(folder) is None
    assert commit_files(folder, {}, new_write_id(), None) is None


def test_behind_a_checkpoint_delta_rs_is_asked_and_both_agree(tmp_path):
    delta, folder = made(tmp_path)
    early, late = new_write_id(), None
    delta.append("topologies", topologies(b="1"), early)
    DeltaTable(folder).create_checkpoint()
    time.sleep(0.01)
    late = new_write_id()
    delta.append("topologies", topologies(c="1"), late)
    tail = read_log_tail(folder)
    assert tail is not None
    assert datetime.fromtimestamp(tail.checkpointed_at, UTC) < datetime.now(UTC)
    assert (tail.has_write(early), tail.has_write(late), tail.version) == (None, True, 3)
    for write_id in (early, late):
        (file,) = delta.listed_files("topologies", write_id) or []
        assert file.path in [uri.partition("topologies/")[2] for uri in DeltaTable(folder).file_uris()]
        delta.append("topologies", topologies(d="1"), write_id)  # once is enough
    assert DeltaTable(folder).version() == 3


def test_tables_get_checkpoints_in_turn(tmp_path):
    _delta, folder = made(tmp_path)
    for _ in range(COMMITS_OF_A_CHECKPOINT + 1):
        tail = commit_files(folder, {}, new_write_id(), None)
    assert tail is not None
    assert DeltaTable(folder).version() == tail.version
    assert len(list(Path(folder, "_delta_log").glob("*.checkpoint.parquet"))) == 1
    reread = read_log_tail(folder)
    assert reread is not None
    assert len(reread.actions) < 2 * COMMITS_OF_A_CHECKPOINT
