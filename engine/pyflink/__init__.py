"""PyFlink's API, under its own names."""
