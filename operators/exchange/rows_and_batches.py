"""Records as Python values and as columns: where an operator on rows meets one on record batches."""

import pyarrow as pa

from penstock.operators.chain.operator import Values
from penstock.operators.common.arrow_columns import from_arrow, to_arrow
from penstock.operators.common.is_pickled import is_pickled
from penstock.operators.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation

#: The one column of records that are no rows or tuples.
VALUE_COLUMN = "value"


def batch_of_values(values: Values, type_info: TypeInformation | None) -> pa.RecordBatch:
    """One column per field of a row or tuple type, else one column `value`. TypeError: no declared type."""
    if is_pickled(type_info):
        raise TypeError("records of no declared type have no columns: declare the output type before")
    array = to_arrow(values, type_info)
    if not isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return pa.RecordBatch.from_arrays([array], [VALUE_COLUMN])
    if array.null_count:
        raise TypeError("a row that is null has no columns")
    return pa.RecordBatch.from_struct_array(array)


def values_of_batch(batch: pa.RecordBatch, type_info: TypeInformation | None) -> Values:
    """The inverse of `batch_of_values`."""
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return from_arrow(batch.to_struct_array(), type_info)
    return from_arrow(batch.column(0), type_info)
