"""Kinds of clusters, sessions, and slots, which decide where jobs run."""
