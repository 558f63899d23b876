"""Pictures, comparisons, explanations, sizes, SQL queries and pages of plans."""
