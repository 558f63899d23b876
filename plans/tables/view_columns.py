"""Column names of the SQL views, where a key has the same name in every view."""

from penstock.plans.tables import TABLES

_RENAMED = {
    "topologies": {"name": "topology"},
    "rejected": {"name": "topology"},
    "transformations": {"id": "node"},
    "stream_nodes": {"id": "node"},
    "stream_edges": {"source": "source_node", "target": "target_node"},
}


def view_columns(table: str) -> dict[str, str]:
    """Map the stored columns of a table, in order, to their names in the view of the same name.

    A node is `node`, or `source_node` and `target_node` of an edge; a topology's name is `topology`. All
    other keys (`topology_id`, `vertex`, `subtask`, …) keep their stored names.
    """
    renamed = _RENAMED.get(table, {})
    return {column: renamed.get(column, column) for column in TABLES[table].names}
