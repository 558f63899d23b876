"""Committing all sinks of a run as one: a journal, two rounds, and recovery of runs of killed drivers."""
