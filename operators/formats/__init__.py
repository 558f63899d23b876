"""What records look like in files and messages: CSV, JSON, Parquet, text."""
