"""The bars that programs draw: tqdm's, Keras's, rich's, Chainer's."""

from __future__ import annotations

import re

from batchai_magics.metrics.progress.sighting import Count, Sighting, seconds

LONGEST_LABEL = 40
_CLOCK = r"(?:\d{1,4} days?, )?\d{1,4}(?::\d\d){1,2}"
_SIZE = r"\d{1,15}(?:\.\d{1,6})?[kKMGTP]?"

# tqdm 4: `{desc}: {percentage}%|{bar}| {n}/{total} [{elapsed}<{remaining}, {rate}{postfix}]`
_TQDM = re.compile(
    rf"(?:^|(?P<label>\S[^|\n]{{0,200}}?): *)\s*(?P<percent>\d{{1,3}})%\|[^|\n]{{0,400}}\| ?"
    rf"(?P<done>{_SIZE})/(?P<total>{_SIZE}) \[(?P<spent>{_CLOCK})<(?P<left>{_CLOCK}|\?)"
)
# Keras 1 and 2: `12/48 [=====>....] - ETA: 2s - loss: …`, at last ` - 1s 5ms/step`
_KERAS_2 = re.compile(
    rf"(?P<done>\d{{1,12}})/(?P<total>\d{{1,12}}) \[[=>.]{{3,}}\](?: - ETA: (?P<left>{_CLOCK}|\d{{1,6}}s))?"
)
# Keras 3: `12/48 ━━━━━━━━ 1:24 714us/step - accuracy: …`
_KERAS_3 = re.compile(
    rf"(?P<done>\d{{1,12}})/(?P<total>\d{{1,12}}) [━╸╺─]{{3,}} (?P<left>{_CLOCK}|\d{{1,6}}s) \S{{1,16}}/step"
)
# rich: `Epoch 0/9 ━━━━╸━━━ 50/100 0:00:01 • 0:00:01 45.0it/s` of Lightning,
# `━━━ 45.0/99.1 MB 12 MB/s eta 0:00:05` of pip, `Working… ━━━━ 45% 0:00:05`
_RICH = re.compile(
    r"(?P<label>[^━\n]{0,200}?)\s*[━╸╺]{3,}[━╸╺ ]*\s"
    rf"(?:(?P<done>{_SIZE})/(?P<total>{_SIZE})|(?P<percent>\d{{1,3}})%)"
    rf"(?:[^\n]{{0,40}}?(?:(?:{_CLOCK}|-:--:--) • |eta )(?P<left>{_CLOCK})|\s(?P<rest>{_CLOCK})\s*$)?"
)
# Chainer's ProgressBar: `     total [###.....] 36.67%`
_CHAINER = re.compile(r"(?P<label>total) \[#*\.*\]\s+(?P<percent>\d{1,3}(?:\.\d{1,4})?)%")

_EPOCH = re.compile(r"epochs?\b", re.IGNORECASE)
_EPOCH_OF = re.compile(r"epoch\s*(?P<done>\d{1,9})/(?P<total>\d{1,9})$", re.IGNORECASE)
_BARS = (_TQDM, _KERAS_2, _KERAS_3, _RICH, _CHAINER)


def bar_in(line: str) -> Sighting | None:
    """The bar that a line shows, without escape sequences; a line that was cut off shows none."""
    for shape in _BARS:
        bar = shape.search(line)
        if bar:
            return _read({name: text for name, text in bar.groupdict().items() if text is not None})
    return None


def _read(parts: dict[str, str]) -> Sighting | None:
    label = parts.get("label", "").strip(" :\t")
    done, total = parts.get("done") or parts["percent"], parts.get("total", "")
    count = Count(done, total, label[-LONGEST_LABEL:])
    if count.fraction is None:
        return None
    left_s = seconds(parts.get("left") or parts.get("rest"))
    epoch = _epoch_in(label)
    if epoch:  # Lightning's label: the bar is of this epoch
        return Sighting(epoch, Count(done, total), left_s, True)
    if total and _EPOCH.fullmatch(label):  # the bar counts epochs
        return Sighting(Count(done, total, "epoch"), None, left_s)
    return Sighting(None, count, left_s)


def _epoch_in(label: str) -> Count | None:
    named = _EPOCH_OF.search(label)
    epoch = Count(named["done"], named["total"], "epoch") if named else None
    return epoch if epoch and epoch.fraction is not None else None
