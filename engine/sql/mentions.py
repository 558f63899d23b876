"""Which tables a query names."""

import re


def mentions(query: str, table: str) -> bool:
    """Whether a query has the name of a table in it: as a table, or as something else of that name."""
    return re.search(rf"\b{table}\b", query, re.IGNORECASE) is not None
