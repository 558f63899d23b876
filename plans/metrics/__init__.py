"""How good a plan is: what it needs, and how much data it sustains under a cost model."""
