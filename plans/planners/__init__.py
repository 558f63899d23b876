"""Planners: they run the passes of plans.passes on whole topologies at a time.

The columnar planner (columnar_passes, plan_in_parts) needs no JVM: it runs in one process, or in a Python
worker of Spark for each partition of a fleet. The joins planner (joins_passes, run_joins) works on Spark's
DataFrames. Their tables have the same rows. Where columns differ, the docstring of the pass says so: over
columns, rows are found by their place in a table, where Spark joins by key. Sequential walks are the same
functions in both.
"""
