"""Capture jobs of real programs as topologies: an agent in the program's JVM writes their StreamGraphs."""
