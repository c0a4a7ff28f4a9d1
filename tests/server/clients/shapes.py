"""What an answer has that the published API does not, by the models of its genuine client."""

import re
from urllib.parse import urlsplit

import requests

KINDS = {
    "workspaces": "Workspace",
    "clusters": "Cluster",
    "experiments": "Experiment",
    "jobs": "Job",
    "fileservers": "FileServer",
}
LISTS = {
    "listoutputfiles": "File",
    "listremotelogininformation": "RemoteLoginInformation",
    "usages": "Usage",
    "operations": "Operation",
    **KINDS,
}
OPERATION = {"id", "name", "status", "startTime", "endTime", "properties"}
OURS = re.compile(r"batchai")  # clients leave out what they do not know
BEYOND = {"properties.experimentName"}  # the service showed it, though it was not published
_LIST, _MAP = re.compile(r"\[(.+)\]"), re.compile(r"\{(.+)\}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z")
_DURATION = re.compile(r"P[0-9DTHMS]+")
_PLAIN = {"str": str, "int": int, "bool": bool, "long": int, "float": (int, float)}


def watch(models, wrong):
    """From here on every JSON answer that comes is checked; what is wrong is added to a list."""
    send = requests.Session.send

    def watched(self, request, **settings):
        response = send(self, request, **settings)
        where = f"{request.method} {urlsplit(request.url).path} {response.status_code}"
        wrong.extend(f"{where}: {line}" for line in _of_answer(models, request, response))
        return response

    requests.Session.send = watched


def _of_answer(models, request, response):
    if not response.content or "json" not in response.headers.get("Content-Type", ""):
        return []
    data, words = response.json(), urlsplit(request.url).path.lower().strip("/").split("/")
    if response.status_code >= 400:
        return [] if set(data) == {"error"} and {"code", "message"} <= set(data["error"]) else ["no error"]
    if words[-2] in ("operationresults", "operationstatuses"):
        return sorted(set(data) - OPERATION)
    if words[-1] in LISTS:
        extra = sorted(set(data) - {"value", "nextLink"})
        return extra + deviations(models, data["value"], f"[{LISTS[words[-1]]}]")
    if words[-2] in KINDS:
        return deviations(models, data, KINDS[words[-2]])
    return ["an answer of no kind"]


def deviations(models, data, kind, path=""):
    """Every place where JSON is not what the model `kind` says."""
    if data is None:
        return [f"{path}: null"]
    inner = _LIST.fullmatch(kind)
    if inner:
        items = [deviations(models, item, inner[1], f"{path}[{n}]") for n, item in enumerate(data)]
        return [line for lines in items for line in lines]
    if _MAP.fullmatch(kind) or kind == "object":
        return [] if isinstance(data, dict) else [f"{path}: no object"]
    if kind in ("iso-8601", "duration"):
        form = _TIME if kind == "iso-8601" else _DURATION
        return [] if form.fullmatch(data) else [f"{path}: {data!r} is no {kind}"]
    if kind in _PLAIN:
        return [] if isinstance(data, _PLAIN[kind]) else [f"{path}: {data!r} is no {kind}"]
    model = getattr(models, kind)
    if issubclass(model, str):
        values = {getattr(member, "value", member) for member in model}
        return [] if data in values else [f"{path}: {data!r} is none of {sorted(values)}"]
    return _of_object(models, data, model, path)


def _of_object(models, data, model, path):
    if not isinstance(data, dict):
        return [f"{path}: {data!r} is no object"]
    known = {entry["key"]: entry["type"] for entry in model._attribute_map.values()}
    found = []
    for key, value in _flat(data, known):
        place = f"{path}.{key}".lstrip(".")
        if key in known:
            found += deviations(models, value, known[key], place)
        elif key not in BEYOND and not OURS.match(key.split(".")[-1]):
            found.append(f"{place}: unknown")
    return found


def _flat(data, known):
    """The fields of an object; those of `properties` where the client flattens it."""
    for key, value in data.items():
        if any(name.startswith(f"{key}.") for name in known) and isinstance(value, dict):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value
