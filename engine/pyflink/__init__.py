"""PyFlink's API under PyFlink's names."""
