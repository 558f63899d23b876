"""Formats of records in files and messages, which are CSV, JSON, Parquet and text."""
