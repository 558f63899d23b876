"""The columnar planner: the passes of plans.passes over polars DataFrames, on whole topologies at a time.

It needs no JVM: it runs in one process, or in a Python worker of Spark for each partition of a fleet. Its
tables have the same rows as those of plans.joins. Where their columns differ, the docstring of the pass says
so: here, rows are found by their place in a table, where Spark joins by key. Sequential walks are the same
functions in both.
"""

import os

os.environ.setdefault("_RJEM_MALLOC_CONF", "thp:always,dirty_decay_ms:5000,muzzy_decay_ms:0")
"""Makes polars' allocator ask for huge pages and keep freed ones for five seconds, unless the user has
configured it otherwise. A fleet then has less than half the page faults, without a higher peak of memory.
polars reads the variable when it is imported."""
