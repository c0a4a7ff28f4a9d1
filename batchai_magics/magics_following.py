"""What a notebook says while a command goes on, and when somebody interrupts it."""

from __future__ import annotations

import codecs
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from batchai_magics.commands.refusal import interrupted
from batchai_magics.commands.stream import Ended, Said, Stream
from batchai_magics.errors import BatchAIError, JobFailedError

if TYPE_CHECKING:
    from batchai_magics.jobs.handle import Job

_GRACE_S = 3.0  # between the interrupt that detaches and the one that ends the job


def tell(notes: Iterable[str]) -> None:
    """Says what people should know beside a result."""
    for note in notes:
        print(note, file=sys.stderr)


def follow(stream: Stream) -> None:
    """Prints what a command tells while it goes on; an interrupt stops the watching, not the job."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        for part in stream.parts:
            if isinstance(part, Ended):
                if part.exit_code:
                    raise JobFailedError(part.text, exit_code=part.exit_code)
            elif isinstance(part, Said):
                print(part.text, file=sys.stderr)
            else:
                sys.stdout.write(decoder.decode(part.data))
    except KeyboardInterrupt:
        raise interrupted(stream.farewell.replace("batchai ", "%batchai ", 1)) from None


def detached(job: Job) -> BatchAIError:
    """What an interrupted wait comes to: detached, or the job ended when a second interrupt follows."""
    back = f"%batchai job show -n {job.name}"
    print(
        f"Detached: {job.name} runs on. Interrupt again within {_GRACE_S:.0f} s to end it.", file=sys.stderr
    )
    try:
        threading.Event().wait(_GRACE_S)
    except KeyboardInterrupt:
        job.cancel()
        return interrupted(f"{job.name} was told to end. To see it: {back}")
    return interrupted(f"Stopped waiting; {job.name} is left as it is. To come back: {back}")
