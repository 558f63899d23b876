"""SQL over a version of a store: its tables as views of DuckDB, which read nothing else and write nothing."""
