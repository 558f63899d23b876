"""Import of foreign documents (graphs of other tools, JSON of Flink) as topologies, with notes of ignored
parts.
"""
