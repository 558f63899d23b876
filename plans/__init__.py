"""Tables of each layer of a Flink job's plan, and the passes that derive a layer from the one before."""

import os

os.environ.setdefault("_RJEM_MALLOC_CONF", "thp:always,dirty_decay_ms:5000,muzzy_decay_ms:0")
"""Makes polars' allocator request huge pages and hold freed pages for five seconds, unless the user has
configured it otherwise. A fleet then causes less than half the page faults, at the same peak of memory.
polars reads the variable on import."""
