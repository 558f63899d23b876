"""Keyed and broadcast state, its time to live, timers, and where all that goes when memory is short."""
