"""Operators around process functions, keyed functions and reduce functions."""
