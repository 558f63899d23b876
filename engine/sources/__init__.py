"""Recognises what stands at a place that a command or a call was given."""
