"""Planners, which run the passes of plans.passes over whole topologies.

The columnar planner (columnar_passes, plan_in_parts) needs no JVM: it runs in one process, or in a Python
worker of Spark for each partition of a fleet. The joins planner (joins_passes, run_joins) works on Spark's
DataFrames. Both produce tables with the same rows. Differences in columns are documented by the pass: the
columnar planner looks rows up by position, Spark joins by key. Sequential walks are the same functions in
both.
"""
