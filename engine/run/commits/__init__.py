"""Committing all sinks of a run as one, by a journal and two rounds; recovery of runs of killed drivers."""
