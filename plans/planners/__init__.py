"""The planner, which runs the passes of plans.passes over whole topologies.

It needs no JVM: it runs in one process, or in a Python worker of Spark for each partition of a fleet
(columnar_passes, plan_in_parts). Topologies too large for that are planned by plans.blocks.
"""
