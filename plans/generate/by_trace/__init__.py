"""Topologies with the sizes and shapes that a published trace reports."""
