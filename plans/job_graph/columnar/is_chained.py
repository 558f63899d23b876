"""Whether the two operators of a stream edge run in one chain."""

import polars as pl

IS_CHAINED = pl.col("chainable") | pl.col("chained_source")
"""Of a row of stream_edges: the reader follows in the chain, or takes the source into its own."""
