"""The way of records from a subtask to its readers: partitioners, blocks of bytes, gates."""
