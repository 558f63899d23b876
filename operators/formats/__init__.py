"""Formats of records in files and messages: CSV, JSON, Parquet, text."""
