"""The runtime of operators: everything that runs inside a chain."""
