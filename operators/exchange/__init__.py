"""Partitioners, blocks of bytes and gates, which bring records from a subtask to its readers."""
