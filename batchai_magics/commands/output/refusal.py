"""What `az batchai` refuses on the client's side: its words, its exit code."""

from __future__ import annotations

from batchai_magics.errors import BatchAIError, UsageError

INTERRUPTED = 130


def refusal(message: str, *, hint: str = "") -> UsageError:
    """An error for a line that is well-formed but cannot be carried out; exit code 1 as in `az`."""
    error = UsageError(message, hint=hint)
    error.exit_code = 1
    return error


def interrupted(message: str) -> BatchAIError:
    """What an interrupt comes to: how things stand and how to go on; exit code 130."""
    error = BatchAIError(message)
    error.exit_code = INTERRUPTED
    return error
