"""Looking at plans: pictures, comparisons, explanations, sizes, SQL and pages."""
