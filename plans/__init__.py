"""What a plan is and how each layer is derived from the one before: DataFrames in, DataFrames out."""

from penstock_guard import require_own_packages

require_own_packages(__file__)
