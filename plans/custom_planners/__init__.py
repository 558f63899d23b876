"""Custom planners, the decisions they may make in place of Flink's rules, and the checks of
these decisions.
"""
