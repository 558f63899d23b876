"""What runs inside a chain."""

from penstock_guard import require_own_packages

require_own_packages(__file__)
