"""Suites, measurements in separate processes, results and pages of benchmarks of planners."""
