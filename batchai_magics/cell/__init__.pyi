from .cell_request import CellRequest as CellRequest, describe as describe, parse as parse
