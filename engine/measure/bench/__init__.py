"""Benchmarks of planners: suites, measurements in separate processes, results and their page."""
