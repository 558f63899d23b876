"""The columnar planner: the passes of plans.passes over Arrow arrays, a batch of whole topologies at a time.

Every pass has the name, the input tables and the output columns of the Spark pass that it stands beside, and
the same rows; it is written over polars DataFrames, so that it runs on the driver without a JVM, or in a
Python worker for each partition of a fleet. Sequential walks are the same functions in both planners.
"""

import os

os.environ.setdefault("_RJEM_MALLOC_CONF", "thp:always,dirty_decay_ms:5000,muzzy_decay_ms:0")
"""polars' allocator, which reads this when polars is imported, asks for huge pages and keeps freed ones for
five seconds, unless somebody has configured it: a fleet has less than half the page faults then, and no
higher peak of memory."""
