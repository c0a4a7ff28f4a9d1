from .cell_request import (
    CellRequest as CellRequest,
    Notebook as Notebook,
    describe as describe,
    parse as parse,
    parse_script as parse_script,
)
from .cell_request import ScriptFolder as ScriptFolder
