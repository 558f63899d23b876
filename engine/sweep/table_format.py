"""What `penstock sweep table` shows where nothing is said, and in which formats."""

from enum import StrEnum

DEFAULT_METRICS = ("sustained_records_per_second", "slots", "planning_seconds")


class TableFormat(StrEnum):
    """What --format takes."""

    MARKDOWN = "markdown"
    LATEX = "latex"  #: for the package booktabs
    CSV = "csv"
