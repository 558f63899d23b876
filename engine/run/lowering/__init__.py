"""The calls of a script as the transformations that PyFlink submits, and the plan of these."""
