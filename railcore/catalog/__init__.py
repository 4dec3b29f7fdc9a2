"""The catalog: numbers of the world with unit, source and date; units, checks of arguments, tables as people read them.

`catalog.item("gpus", "H100")["memory"]` is a value in SI units; `recording` keeps the rows that a run looked up.
"""

from railcore.catalog.items import (
    BOOKS,
    COLUMNS,
    GIVEN,
    GPU_FAMILIES,
    INPUT_COLUMNS,
    KINDS,
    OLD_COLUMNS,
    SHAPES,
    Item,
    RowNeed,
    Value,
    families,
    input_rows,
    item,
    laid_over,
    missing_rows,
    names,
    own_version,
    recording,
    related_items,
    row_needs,
    rows_to_add,
    values,
    variant_row,
)
from railcore.catalog.lookup import UnknownName, full_name, listed_name, near_names, nearest_names
