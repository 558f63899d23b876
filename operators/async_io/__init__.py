"""Asynchronous calls to the outside, with timeout, capacity and retry."""
