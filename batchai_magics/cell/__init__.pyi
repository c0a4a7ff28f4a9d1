from .cell_request import (
    CellRequest as CellRequest,
    Notebook as Notebook,
    ScriptFolder as ScriptFolder,
    describe as describe,
    parse as parse,
    parse_script as parse_script,
)
