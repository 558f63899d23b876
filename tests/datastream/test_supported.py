"""Everything of PyFlink's list of public names is there, or refused on purpose."""

from pathlib import Path

from engine.pyflink_names.supported import missing_names, support_table

API = (Path(__file__).parent.parent / "pyflink" / "api.txt").read_text(encoding="utf-8").splitlines()


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
    (row,) = [line for line in table if line.startswith("| pyflink.datastream.output_tag |")]
    assert "OutputTag" in row
    (row,) = [line for line in table if "| SlotSharingGroup |" in line and "slot_sharing_group |" in line]
    assert "Builder.set_cpu_cores" in row
    assert "get_managed_memory" in row
    assert "__" not in row
    assert any(line.startswith("| pyflink.table |") for line in table)
    assert all(
        line == "" or line.startswith("| ") or "|" not in line or line.startswith("|-") for line in table
    )
