"""Names of columns in SQL: a key is called the same in every view."""

from penstock.plans.tables import TABLES

_RENAMED = {
    "topologies": {"name": "topology"},
    "rejected": {"name": "topology"},
    "transformations": {"id": "node"},
    "stream_nodes": {"id": "node"},
    "stream_edges": {"source": "source_node", "target": "target_node"},
}


def view_columns(table: str) -> dict[str, str]:
    """Stored columns of a table, in their order, to their names in the view of the same name as the table.

    A node is `node`, or `source_node` and `target_node` of an edge; a topology's name is `topology`. All
    other keys (`topology_id`, `vertex`, `subtask`, …) are called the same in all tables as they are stored.
    """
    renamed = _RENAMED.get(table, {})
    return {column: renamed.get(column, column) for column in TABLES[table].names}
