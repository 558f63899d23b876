"""Operators without keys and state: map, filter, flat map, timestamps, vectorised functions."""
