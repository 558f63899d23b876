"""Capture jobs of real programs as topologies, by an agent in the JVM that writes their StreamGraphs."""
