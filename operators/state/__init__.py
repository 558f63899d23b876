"""Keyed and broadcast state, its time to live, timers, and how they spill to disk when memory is short."""
