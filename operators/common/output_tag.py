"""Names of side outputs. Source: pyflink.datastream.output_tag."""

from typing import Any, NoReturn

from penstock.operators.common.arguments import no_java
from penstock.operators.common.basic_types import RowTypeInfo, TypeInformation
from penstock.operators.common.declared_types import declared_type
from penstock.operators.common.typeinfo import Types


class OutputTag:
    """Id and type of a side output.

    Types may be Spark's or Arrow's, too.

    Args:
        tag_id: A name that is not empty.
        type_info: Type of the records; a list of types stands for a row of them; default: pickled Python
            objects.

    Raises:
        ValueError: The id is empty.
        TypeError: Another type_info.

    Examples:
        >>> from penstock.common import Types
        >>> from penstock.datastream import OutputTag
        >>> late = OutputTag("late", Types.STRING())
    """

    def __init__(self, tag_id: str, type_info: Any = None) -> None:
        if not tag_id:
            raise ValueError("the tag_id of an OutputTag must not be empty")
        self.tag_id = tag_id
        self.type_info: TypeInformation
        if type_info is None:
            self.type_info = Types.PICKLED_BYTE_ARRAY()
        elif isinstance(type_info, list):
            self.type_info = RowTypeInfo(type_info)
        else:
            self.type_info = declared_type(type_info, "type_info of an OutputTag")

    def get_java_output_tag(self) -> NoReturn:
        """Raise NoJavaError: jobs of Penstock run no Java."""
        no_java("OutputTag.get_java_output_tag")
