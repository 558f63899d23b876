"""The pages of docs/ that follow from the code are those that the code gives."""

from pathlib import Path

import pytest

from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import COMMENT
from tests.reference_pages import reference_pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", reference_pages())
def test_pages_are_up_to_date(name):
    assert (DOCS / name).read_text(encoding="utf-8") == reference_pages()[name], "run `make docs`"


def test_every_column_has_a_comment():
    without = [
        f"{table}.{column.name}"
        for table, columns in TABLES.items()
        for column in columns
        if not column.metadata[COMMENT]
    ]
    assert not without
