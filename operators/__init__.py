"""The runtime of operators, which contains all code that runs inside a chain."""
