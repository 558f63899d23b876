"""Plans as JSON lines (docs/plan-json.md)."""
