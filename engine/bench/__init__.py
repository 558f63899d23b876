"""Benchmarks of planners in batch: suites, measurements in processes of their own, results and their page."""
