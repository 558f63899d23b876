"""What a plan is and how each layer is derived from the one before: tables in, tables out."""

from penstock_guard import require_own_packages

require_own_packages(__file__)
