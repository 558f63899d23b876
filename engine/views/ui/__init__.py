"""The run page (`penstock ui`): jobs and recorded runs in a browser, on loopback.

`serve` answers the requests that `guard` lets through; pages are Jinja templates, with the picture of the
plan from engine.draw. Nothing here imports pyspark.
"""
