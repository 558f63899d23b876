"""The run page (`penstock ui`): jobs and recorded runs in a browser, on loopback.

`serve` answers requests that `Guard` admits; pages are Jinja templates, with the picture of the plan from
views.draw. Nothing here imports pyspark.
"""
