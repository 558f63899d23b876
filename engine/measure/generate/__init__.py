"""Drawn fleets that are no shapes: workloads, traces, spec files, fleets after given ones."""
