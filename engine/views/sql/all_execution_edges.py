"""Execution edges of all topologies, one by one, as a query over the views of a version."""

MEMORY_BYTES = 2**30
"""Memory limit of joins, whatever the store's size; what exceeds it goes to a temporary folder."""

ALL_EXECUTION_EDGES = """
SELECT topology, data_set_id AS data_set, producer.vertex_id AS source,
    unnest(range(first_partition, last_partition + 1))::INTEGER AS source_subtask,
    reader.vertex_id AS target, subtask AS target_subtask, input_index AS input,
    first_subpartition, last_subpartition
FROM execution_edges
JOIN job_edges USING (topology_id, target_vertex, input_index)
JOIN (SELECT topology_id, vertex AS source_vertex, vertex_id FROM job_vertices) producer
    USING (topology_id, source_vertex)
JOIN (SELECT topology_id, vertex AS target_vertex, vertex_id FROM job_vertices) reader
    USING (topology_id, target_vertex)
JOIN topologies USING (topology_id)
"""
"""The members of `penstock edges` and the topology's name; in any order."""
