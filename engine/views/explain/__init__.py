"""Why a plan is as it is: chaining, exchanges, operator ids, slot sharing groups and slots.

Verdicts are those that the planner has written into its tables; nothing is decided here.
"""
