"""Writes a run to an MLflow server, over its REST API. Standard library only."""

from __future__ import annotations

import base64
import json
import os
import re
import time
import urllib.error
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from batchai_magics.models.runs.scalar_export import ExportedRun, ScalarPoint, metric_of_rank
from batchai_magics.records import http_client

T = TypeVar("T")
TIMEOUT_S = 10.0
RETRY_PAUSES_S = (0.3, 0.6)  # a server that has just started closes connections
MAX_METRICS, MAX_PARAMS = 1000, 100  # of one request, tags as parameters
MAX_PARAM_CHARS, MAX_TAG_CHARS = 6000, 5000  # of one value
LOGIN_HINT = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
GUID_TAG = "batchai.run"  # identifies the run: exporting it again continues it
_API = "/api/2.0/mlflow/"
_STATUSES = {"succeeded": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
_NOT_IN_NAMES = re.compile(r"[^\w./: -]")


class MlflowError(OSError):
    """An MLflow server refused a request, or does not respond; `is_final` if it would refuse it again."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class MlflowLoginError(MlflowError):
    """An MLflow server wants a login, or another one."""


class MlflowRun:
    """A run on an MLflow server, in the experiment named after the job's; see `ScalarWriter`.

    Credentials come from the variables of MLflow's own clients: MLFLOW_TRACKING_USERNAME and
    MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN.
    """

    def __init__(
        self,
        uri: str,
        run: ExportedRun,
        env: Mapping[str, str] = os.environ,
        *,
        pauses_s: Sequence[float] = RETRY_PAUSES_S,
    ) -> None:
        self._api = _RestApi(uri, env, pauses_s)
        self._run, self._id = run, ""
        self._unsent, self._sent = dict(run.parameters), set[str]()  # parameters, and names of sent ones

    def add_parameters(self, parameters: Mapping[str, str]) -> None:
        """Keeps parameters for the next request; MLflow never changes one that it has."""
        self._unsent.update(parameters)

    def write(self, points: Iterable[ScalarPoint]) -> None:
        """Sends points, many in one request."""
        id = self._id or self._started()
        self._send_parameters(id)
        metrics = (
            {
                "key": _NOT_IN_NAMES.sub("_", metric_of_rank(point))[:250],
                "value": _json_number(point.value),
                "timestamp": _millis(point.time),
                "step": point.step,
            }
            for point in points
        )
        while batch := list(islice(metrics, MAX_METRICS)):
            self._api.post("runs/log-batch", {"run_id": id, "metrics": batch})

    def finish(self, state: str, ended: float) -> None:
        """Sets the final status of the run."""
        id = self._id or self._started()
        self._send_parameters(id)
        status = _STATUSES.get(state, "FAILED")
        self._api.post("runs/update", {"run_id": id, "status": status, "end_time": _millis(ended)})

    def _started(self) -> str:
        """The id of the run, which is created unless it was exported before; sends its tags."""
        name = self._run.experiment
        if existing := self._api.get("experiments/get-by-name", {"experiment_name": name}):
            experiment = str(existing["experiment"]["experiment_id"])
        else:
            experiment = str(self._api.post("experiments/create", {"name": name})["experiment_id"])
        query = f"tags.`{GUID_TAG}` = '{self._run.guid}'"
        answer = self._api.post("runs/search", {"experiment_ids": [experiment], "filter": query})
        if runs := answer.get("runs"):
            self._sent.update(item["key"] for item in runs[0].get("data", {}).get("params") or ())
            id = str(runs[0]["info"]["run_id"])
        else:
            body = {
                "experiment_id": experiment,
                "run_name": self._run.name,
                "start_time": _millis(self._run.started),
                "tags": [{"key": GUID_TAG, "value": self._run.guid}],
            }
            id = str(self._api.post("runs/create", body)["run"]["info"]["run_id"])
        for tags in _batches(_items(self._run.tags, MAX_TAG_CHARS), MAX_PARAMS):
            self._api.post("runs/log-batch", {"run_id": id, "tags": tags})
        self._id = id
        return id

    def _send_parameters(self, id: str) -> None:
        items = _items(self._unsent, MAX_PARAM_CHARS)
        new = {item["key"]: item for item in items if item["key"] not in self._sent}
        for params in _batches(new.values(), MAX_PARAMS):
            self._api.post("runs/log-batch", {"run_id": id, "params": params})
            self._sent.update(item["key"] for item in params)
        self._unsent.clear()


class _RestApi:
    """Sends requests with credentials; retries those that create nothing if their connection is closed."""

    def __init__(self, uri: str, env: Mapping[str, str], pauses_s: Sequence[float]) -> None:
        self._pauses_s = pauses_s
        self._base, self._headers = uri.rstrip("/") + _API, {"Content-Type": "application/json"}
        user, password = env.get("MLFLOW_TRACKING_USERNAME"), env.get("MLFLOW_TRACKING_PASSWORD", "")
        if token := env.get("MLFLOW_TRACKING_TOKEN"):
            self._headers["Authorization"] = f"Bearer {token}"
        elif user:
            credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {credentials}"

    def get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        """The response; empty for a resource that does not exist."""
        return self._send(f"{path}?{urllib.parse.urlencode(query)}", None, may_be_missing=True)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The response."""
        return self._send(path, json.dumps(body).encode())

    def _send(self, path: str, data: bytes | None, *, may_be_missing: bool = False) -> dict[str, Any]:
        pauses_s = () if path.endswith("/create") else self._pauses_s
        try:
            body = self._response(path, data, pauses_s)
            answer: dict[str, Any] = json.loads(body or b"{}")
            return answer
        except urllib.error.HTTPError as error:
            if may_be_missing and error.code == 404:
                return {}
            if error.code in (401, 403):
                raise MlflowLoginError(f"MLflow: {error.code} {LOGIN_HINT}", is_final=True) from None
            is_final = error.code == 400
            raise MlflowError(f"MLflow: {error.code} {_message(error)}", is_final=is_final) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise MlflowError(f"MLflow does not respond: {reason}") from None

    def _response(self, path: str, data: bytes | None, pauses_s: Sequence[float]) -> bytes:
        for pause_s in pauses_s:
            try:
                return http_client.send(self._base + path, data, self._headers, timeout_s=TIMEOUT_S)
            except OSError as error:
                if not isinstance(getattr(error, "reason", error), (ConnectionResetError, BrokenPipeError)):
                    raise
                time.sleep(pause_s)
        return http_client.send(self._base + path, data, self._headers, timeout_s=TIMEOUT_S)


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(1 << 16))["message"])[:300]
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)


def _json_number(value: float) -> float | str:
    """A number as protobuf's JSON writes it."""
    if value != value:
        return "NaN"
    return value if abs(value) != float("inf") else "Infinity" if value > 0 else "-Infinity"


def _items(values: Mapping[str, str], max_chars: int) -> Iterator[dict[str, str]]:
    for name, value in values.items():
        yield {"key": _NOT_IN_NAMES.sub("_", name)[:250], "value": str(value)[:max_chars]}


def _batches(items: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _millis(seconds: float) -> int:
    return round((seconds or time.time()) * 1000)
