"""Records as they are."""

from penstock.operators.chain.operator import Operator, Timestamps, Values


class PassOperator(Operator):
    """Puts its records out as they are, in place of an operator that only prepares an exchange."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Hand on the values."""
        self.output.collect(values, timestamps)
