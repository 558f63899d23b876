"""What a plan is and how each layer is derived from the one before: tables in, tables out."""

import os

os.environ.setdefault("_RJEM_MALLOC_CONF", "thp:always,dirty_decay_ms:5000,muzzy_decay_ms:0")
"""Makes polars' allocator ask for huge pages and keep freed ones for five seconds, unless the user has
configured it otherwise. A fleet then has less than half the page faults, without a higher peak of memory.
polars reads the variable when it is imported."""
