"""Operators without keys and state, for map, filter, flat map, timestamps and vectorised functions."""
