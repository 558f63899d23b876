"""Everything of PyFlink's list of public names is there, or refused on purpose."""

from pathlib import Path

import pytest

from penstock.engine.pyflink_names import modules as supported
from penstock.engine.pyflink_names.modules import missing_names, support_table

API = (Path(__file__).parents[3] / "pyflink" / "api.txt").read_text(encoding="utf-8").splitlines()


def test_every_public_name_is_there() -> None:
    assert missing_names(API) == []


def test_what_is_not_there_is_named() -> None:
    lines = [
        "# a comment",
        "",
        "pyflink.common.types RowKind: INSERT NOTHING to_j_row_kind",
        "pyflink.common.types Column: name",
        "pyflink.datastream.window no_such_function()",
        "pyflink.table.udf udf()",
        "pyflink.datastream.slot_sharing_group SlotSharingGroup: Builder.build Builder.destroy",
    ]
    assert missing_names(lines) == [
        "pyflink.common.types.RowKind.NOTHING",
        "pyflink.common.types.Column",
        "pyflink.datastream.window.no_such_function",
        "pyflink.table.udf.udf",
        "pyflink.datastream.slot_sharing_group.SlotSharingGroup.Builder.destroy",
    ]


def test_the_table_lists_classes_with_members_and_what_is_refused() -> None:
    table = list(support_table())
    names = sum(1 + len(line.partition(":")[2].split()) for line in API if line and line[0] != "#")
    assert table[0].startswith(f"Of the {names} public names of PyFlink 2.3.0's DataStream API {names} exist")
    assert "| pyflink.datastream.output_tag | OutputTag |  |  |" in table
    (row,) = [line for line in table if line.startswith("| pyflink.datastream.slot_sharing_group | Slot")]
    assert " Builder.set_cpu_cores " in row
    assert any(line.startswith("| pyflink.table |") for line in table)


def test_what_is_missing_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["pyflink.common.time Time: seconds years", "pyflink.common.time Calendar: today"]
    monkeypatch.setattr(supported, "api_lines", lambda: lines)
    table = list(support_table())
    assert table[0].startswith("Of the 5 public names")
    assert " 2 exist" in table[0]
    assert "| pyflink.common.time | Time | seconds | years |" in table
    assert "| pyflink.common.time | Calendar |  | all |" in table


def test_the_list_that_is_shipped_is_the_one_that_is_tested() -> None:
    assert supported.api_lines() == API


def test_penstocks_own_names_are_there() -> None:
    assert missing_names(supported.OWN_NAMES) == []


def test_the_documentation_is_what_the_code_says() -> None:
    page = (Path(__file__).parents[4] / "docs" / "pyflink-api.md").read_text(encoding="utf-8").splitlines()
    assert page[4:] == list(support_table()), "make it anew: penstock info --api"
