"""Committing all sinks of a run as one: a journal, two rounds, and recovery of what a killed driver left."""
