"""Plans as JSON lines (SPEC section 2)."""
