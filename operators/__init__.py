"""What runs inside a chain."""
