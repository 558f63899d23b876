"""The Spark side: sessions, running the passes, the plan store and the command line."""

from penstock_guard import require_own_packages

require_own_packages(__file__)
