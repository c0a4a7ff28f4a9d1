from .cell_request import (
    CellRequest as CellRequest,
    Notebook as Notebook,
    describe as describe,
    parse as parse,
)
