"""A magic line and the body of its cell become a request for a job. No IPython here."""

from batchai_magics.cell.request import CellRequest, describe, parse

__all__ = ["CellRequest", "describe", "parse"]
