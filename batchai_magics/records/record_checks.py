"""Checks of the record files that come with a new job."""

from __future__ import annotations

from collections.abc import Mapping

from batchai_magics.models.runs.notifications import ChannelKind, channels
from batchai_magics.models.runs.scalar_export import ExportKind
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.records.record_files import CHANNELS, LABELS, MAX_BYTES, SUBMITTED, TRIAL, WATCH
from batchai_magics.records.trial_record import TrialRecord
from batchai_magics.untrusted_files import parse_json


def check_submitted(files: Mapping[str, str]) -> None:
    """Checks the record files that come with a new job.

    Raises:
        ValueError: A name is not in `SUBMITTED`, the files exceed `MAX_BYTES`, or one that is acted upon is
            invalid.
    """
    for name in files:
        if name not in SUBMITTED:
            raise ValueError(f"{name!r} is not a record that comes with a job: {', '.join(SUBMITTED)}")
    size = sum(len(text.encode(errors="surrogatepass")) for text in files.values())
    if size > MAX_BYTES:
        raise ValueError(f"the records of a job have at most {MAX_BYTES} bytes, not {size}")
    if LABELS in files:
        parse_json(files[LABELS])
    if WATCH in files:
        WatchRequest.from_json(files[WATCH])
    if CHANNELS in files:
        addresses_of(files[CHANNELS])
    if TRIAL in files:
        TrialRecord.from_text(files[TRIAL])


def addresses_of(text: str) -> list[str]:
    """The addresses in the file `CHANNELS`; raises ValueError, without any of them, if it is invalid."""
    addresses = parse_json(text)
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise ValueError(f"{CHANNELS} must be an array of texts")
    return list(dict.fromkeys(addresses)) if channels(addresses) else []


def check_confined(files: Mapping[str, str]) -> None:
    """Checks that the record files of a job in a container act on nothing outside it but the network.

    Raises:
        ValueError: They have a command, or an export to a folder.
    """
    addresses = addresses_of(files[CHANNELS]) if CHANNELS in files else []
    if any(channel.kind is ChannelKind.COMMAND for channel in channels(addresses)):
        raise ValueError("a job with an image cannot notify by a command here: that runs outside the image")
    targets = WatchRequest.from_json(files[WATCH]).targets if WATCH in files else ()
    if any(target.kind is ExportKind.TENSORBOARD for target in targets):
        raise ValueError("a job with an image cannot export to a folder here: it is outside the image")
