"""Finds the differences that `penstock diff` shows."""
