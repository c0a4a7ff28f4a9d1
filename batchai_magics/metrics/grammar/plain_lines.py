"""Normalizes lines for the grammar: replaces words of other languages, wrapped values and decimal commas.

A plain line is as long as the original, with each number at the same position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

_PHASES = {
    "train": (
        "训练 訓練 学習 학습 훈련 entraînement entrainement entrenamiento treinamento treino addestramento"
        " обучение обучении обучения обучающая тренировка тренировке eğitim träning treningu treningowa"
        " huấn_luyện pelatihan"
    ),
    "val": (
        "验证 驗證 検証 검증 validación validación validação validazione validierung validierungs валидация"
        " валидации валидационная doğrulama validering walidacji walidacyjna kiểm_định xác_thực validasi"
    ),
    "test": "测试 測試 テスト 테스트 prueba тест тесте тестовая testowa kiểm_tra pengujian",
}
_METRICS = {
    "loss": (
        "损失值 損失値 损失 損失 ロス 손실값 손실 perte pertes pérdida pérdidas perdida perda perdita verlust"
        " verlustwert потери потерь потеря лосс kayıp kaybı förlust verlies strata mất_mát tổn_thất kerugian"
    ),
    "accuracy": (
        "准确率 準確率 正确率 正確率 正解率 정확도 exactitude exactitud genauigkeit acurácia acuracia"
        " accuratezza точность dokładność doğruluk doğruluğu nauwkeurigheid noggrannhet độ_chính_xác akurasi"
    ),
    "precision": "précision precisión precisão precisione präzision",
    "acc": "精度",
    "error": "误差 誤差 오차 오류 erreur errore fehler ошибка ошибки błąd hata sai_số galat",
    "reward": "奖励 獎勵 報酬 보상 récompense recompensa ricompensa belohnung награда",
    "lr": "学习率 學習率 学習率 학습률 lernrate",
    "perplexity": "困惑度",
    "rsq": "r²",
}
_COUNTERS = {
    "epoch": "轮次 轮数 エポック 에포크 에폭 époque epoche época épocas epoca эпоха эпохи epoka",
    "ep": "世代 epok vòng",
    "step": "训练次数 训练步数 步数 步骤 ステップ 스텝 étape schritt paso passo шаг bước adım langkah",
    "iter": (
        "迭代次数 迭代 イテレーション 반복 итерация itération iteración iteração iterazione vòng_lặp iterasi"
    ),
    "batch": "批次 バッチ 배치 батч",
}
_LOSSES_OF = {"trainingsverlust": "train_loss", "validierungsverlust": "val_loss", "testverlust": "test_loss"}
_ACCURACIES_OF = {
    "trainingsgenauigkeit": "train_accuracy",
    "validierungsgenauigkeit": "val_accuracy",
    "testgenauigkeit": "test_accuracy",
}
_FINISHED = {  # behind a count
    "done": (
        "완료 完了 完成 结束 terminée abgeschlossen beendet finalizada finalizado completada concluída"
        " completata завершена завершено tamamlandı zakończona ukończona selesai"
    )
}
_FIRST_OF_CJK = "\u3000"
_AVERAGED = (
    "(?:当前|本轮|整体)?"
    "(?P<mean>平均|평균[ ]?"
    "|(?:средн(?:яя|ее|ие)|ortalama|średni[ae]?|durchschnittlich\\w{0,2}|mittlerer)[ ])?"
)
_MEAN_BEHIND = "(?:[ ](?P<mean_behind>moyenne?|medi[ao]|médi[ao]|promedio|trung[ ]bình|rata-rata))?"


def _english(table: Mapping[str, str]) -> dict[str, str]:
    """The English word of each word in a table, where `_` stands for a blank."""
    return {word.replace("_", " "): english for english, words in table.items() for word in words.split()}


def _any_of(words: Mapping[str, str]) -> str:
    """An expression for any of these words; those of alphabets need a border to other letters."""
    order = sorted(words, key=len, reverse=True)
    of_letters = "|".join(word for word in order if word < _FIRST_OF_CJK)
    others = "|".join(word for word in order if word >= _FIRST_OF_CJK)
    return "(?:" + others + "|" * bool(others) + f"(?<![^\\W\\d_])(?:{of_letters})(?![^\\W\\d_]))"


_PHASE_OF, _METRIC_OF, _COUNTER_OF = _english(_PHASES), _english(_METRICS), _english(_COUNTERS)
_DONE_OF = _english(_FINISHED)
_METRIC_OF |= _LOSSES_OF | _ACCURACIES_OF


_OF = r"(?:[ ](?:de|di|do|da|du|des|na|на|auf|für|trên|trên tập)[ ]|[ ]d['’]|[ ]\(?|_)"
_SET = "集?上?的?[ _]?"
_ENGLISH_PHASES = {"train": "train", "training": "train", "validation": "val", "test": "test"}
_NAME = re.compile(
    f"{_AVERAGED}(?:(?P<phase>{_any_of(_PHASE_OF)}){_SET})?(?P<metric>{_any_of(_METRIC_OF)}){_MEAN_BEHIND}"
    f"(?:{_OF}(?P<of>{_any_of(_PHASE_OF | _ENGLISH_PHASES)})\\)?)?",
    re.IGNORECASE,
)
_PHASED_ENGLISH = re.compile(
    f"(?:整体)?(?P<phase>{_any_of(_PHASE_OF)}){_SET}"
    "(?P<metric>(?:loss|acc|accuracy|error|f1|auc)(?![^\\W_]))",
    re.IGNORECASE,
)
_AFTER = (  # `Fin de l'époque 1`, `Después de la época 1`
    "(?:(?:fin|après|después|fine|dopo|fim|após|depois|nach|ende|после|конец)[ ]"
    "(?:(?:de|da|do|di|del|della|dell|der)[ '’])?(?:(?:la|a|o|l)[ '’])?)?"
)
_TAG = re.compile(f"[【\\[](?P<phase>{_any_of(_PHASE_OF)})(?:集)?[】\\]]", re.IGNORECASE)
_COUNTER = re.compile(
    f"{_AFTER}(?P<word>{_any_of(_COUNTER_OF)})(?=[ \t]*[:=#\\[(|]?[ \t]*\\d)", re.IGNORECASE
)
_ORDINAL = re.compile(
    r"第(?P<count>[ ]?\d+(?:[ ]?/[ ]?\d+)?)(?P<noun>[ ]?(?:轮(?:训练(?=[ -]|\Z))?|回|代|エポック|个?epoch"
    r"|步|ステップ|次(?:迭代|训练)))"
)
_DONE_BEHIND = re.compile(f"(?<=[\\d\\])])[ ]?{_any_of(_DONE_OF)}(?![^\\W\\d_])", re.IGNORECASE)
_TIME = re.compile(
    "(?:训练|所用|总|經過|経過|所要|소요[ ]?|경과[ ]?|학습[ ]?)?"
    "(?:耗时|耗時|用时|用時|时间|時間|시간|время|durée|süre|thời gian)(?=[ ]?[:=]?[ ]{0,3}\\d)",
    re.IGNORECASE,
)
_COUNT_OF = re.compile(  # `Época 3 de 9`
    r"(?P<count>\b(?:epoch|ep|step|iter|batch)[ ]*[:#]?[ ]*\d+[ ])(?P<of>de|di|von|sur|из|z)(?=[ ]\d)"
)
_SECONDS = re.compile(
    r"(?<=\d)(?:秒|초|[ ]?(?:сек(?:унд[аы]?)?\.?|giây|segundos|secondes|sekunden|saniye|detik)(?!\w))",
    re.IGNORECASE,
)
_SIGNS = {"：": ":", "＝": "=", "，": ",", "；": ";", "【": "[", "】": "]", "为": ":", "為": ":"}
_SIGN = re.compile(r"[：＝，；【】]|(?<=\w)[为為](?=[ ]?[-+]?\d)")
_EMOJI = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\ufe0f\u200d]+")
_ARROW_IN_FRONT = re.compile(r"^[ \t]*[\u2190-\u21ff][ \t]*")

_WRAPPED = re.compile(
    rb"(?P<open>\[)?(?:np\.(?:float|int)\d{1,3}|(?:tf\.)?[Tt]ensor|EagerTensor|array|Array)\([ ]*"
    rb"(?:\[{1,3}(?=[-+\d.einfa]{1,40}\]))?(?P<number>[-+]?[\d.]+"
    rb"(?:[eE][-+]?\d{1,3})?|nan|inf|-inf)\]{0,3}[ ]*(?:,[^()\n]{0,80}(?:\([^()\n]{0,40}\)[^()\n]{0,40})?)?\)"
)
_EAGER = re.compile(rb"<tf\.Tensor:[^<>\n]{0,80}numpy=(?P<number>[^<>\s]{1,40})>")
_NONE = re.compile(rb"(?<![\w.])[A-Za-z_][\w./@-]{0,60}(?:[ ]?[:=][ ]?|[ ])None(?![\w.])(?:,(?=[ ]))?")
_BRACKETED = re.compile(rb"\[([A-Za-z_ ]{1,30})\](?=[ ]?[:=][ ]?[-+.\d])")
_ARROW = re.compile(  # `loss => 0.5`, `grad_l2 --> 0.5`
    rb"(?:(?<=[A-Za-z_%)])|(?<=[A-Za-z]\d))(?<![ ]is)[ ]?[=-]{1,2}>(?=[ ]*[-+]?\.?\d)"
)
_DASHED = re.compile(rb"(?<=[A-Za-z_%)])[ ]-[ ](?=[-+]?\.?\d)")
_DASHED_PAIRS = re.compile(  # `loss - 0.5 acc - 0.9`, to the end of a line
    rb"(?<![\w.-])(?:[A-Za-z_][\w./@%()]{0,40}(?:[ ][A-Za-z_][\w./@%()]{0,40}){0,2}[ ]-[ ]"
    rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[ ]?[%s]?[ \t]*(?:[,;|-][ \t]+)?){2,20}\Z"
)
_FORTRAN = re.compile(rb"(\d\.\d{0,20})D(?=[-+]\d\d)")  # `1.2D+02`
_GREEK = re.compile(  # a setting: `ε: 0.1`
    r"[\u0391-\u03c9\u03f5]{1,3}[ ]?[:=][ ]?[-+]?[\d.]+(?:[eE][-+]?\d+)?%?(?![\w.])"
)
_TUPLE_NAME = re.compile(  # as Python 2 prints it
    rb"'([^'\n]{1,60}?)[ ]?[:=]?[ ]?',(?=[ ]*(?:[-+]?\.?\d|nan|inf))"
)
_WINDOW = re.compile(  # `mean reward over the last 100 episodes: 21.3`
    rb"(?:(?:(?<=loss)|(?<=eward)|(?<=eturn)|(?<=score)|(?<=ccuracy))[ ]over[ ]"
    rb"|[ ]\(?(?:(?:over|of|in|for)[ ](?:the[ ])?)?(?:last|past|previous)[ ]|[ ]of[ ](?=\d{1,9}[ ]batch))"
    rb"\d{1,9}(?:[ ][a-z]{1,12})?\)?(?=[ ]?[:=])"
)
_MARK = b"\xef\xbb\xbf"  # of the byte order
_BLOCK_LINE = re.compile(  # of Julia's `@info`: `│   loss = 0.5`, but no row of a table
    rb"\xe2\x94[\x82\x94](?=[ ]{3}[A-Za-z]\w*[ ]=[ ])"
)

_COMMA = re.compile(rb"(?<![\w.,])[-+]?(\d+),(\d+)(?![\d.]|,\d)")
_POINT = re.compile(rb"\d\.\d")
_LIST = re.compile(rb"[\[(][ ]*[-+]?\d+,\d+[ ]*,|\d,[ ]?\d+[ ]?[\])]")
_UNDECIDED = re.compile(rb"(?i)(?:loss|acc|err)\w*'?[ ]?[:=]?[ ]?[-+]?\d{1,3},\d{3}(?![\d.,])")
_GROUP_DIGITS = 3
NAMES: tuple[str, ...] = (*_METRIC_OF,)
"""Names of metrics in other languages, in lower case."""

COUNTERS: tuple[str, ...] = (*_COUNTER_OF, "第")
"""Words before counts in other languages, in lower case."""


def plain_line(text: bytes) -> bytes:
    """The line in the words and forms that the grammar knows."""
    if text.startswith(_MARK):
        text = b"   " + text[3:]
    if text[:1] == b"\xe2":
        text = _BLOCK_LINE.sub(b"   ", text, count=1)
    for marks, form, replacement in _FORMS:
        if any(mark in text for mark in marks):
            text = form.sub(replacement, text)
    if text.count(b"]:") + text.count(b"] =") > 1:
        text = _BRACKETED.sub(rb" \1 ", text)  # `[epoch]: 199, [loss]: 4.99`
    if text.startswith(b"('") and text.endswith(b")"):
        text = _TUPLE_NAME.sub(lambda match: (match[1] + b":").rjust(len(match[0])), text)
    if b"," in text and has_decimal_commas(text):
        text = _COMMA.sub(lambda match: match[0].replace(b",", b"."), text)
    if text.isascii() and not _GERMAN.search(text):
        return text
    line = text.decode("utf-8", "surrogateescape")
    for pattern, english in _REPLACEMENTS:
        line = pattern.sub(partial(_fitted, english), line)
    return line.encode("utf-8", "surrogateescape")


def has_decimal_commas(text: bytes) -> bool:
    """Whether the commas of a line can only be decimal: `loss: 0,5321`, and no number has a point."""
    if _POINT.search(text) or _LIST.search(text):
        return False
    return any(
        len(behind) != _GROUP_DIGITS or len(before) > _GROUP_DIGITS or before.startswith(b"0")
        for before, behind in _COMMA.findall(text)
    )


def is_undecided(text: bytes) -> bool:
    """Whether a line has a loss whose comma may separate thousands or decimals: `loss: 2,684`."""
    return b"," in text and not _POINT.search(text) and _UNDECIDED.search(text) is not None


def _unwrapped(match: re.Match[bytes]) -> bytes:
    begin, end = (position - match.start() for position in match.span("number"))
    bracket = match.groupdict().get("open") or b""
    return b" " * (begin - len(bracket)) + bracket + match["number"] + b" " * (len(match[0]) - end)


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


_FORMS: tuple[tuple[tuple[bytes, ...], re.Pattern[bytes], Callable[[re.Match[bytes]], bytes]], ...] = (
    ((b"(",), _WRAPPED, _unwrapped),
    ((b"(",), _EAGER, _unwrapped),
    ((b"None",), _NONE, _blank),
    ((b"> ",), _ARROW, lambda match: b"= ".rjust(len(match[0]))),
    ((b" over ", b"st ", b"previous ", b" batches:"), _WINDOW, _blank),
    ((b" - ",), _DASHED_PAIRS, lambda match: _DASHED.sub(b" = ", match[0])),
    ((b"D+", b"D-"), _FORTRAN, lambda match: match[1] + b"e"),
)
"""Texts of which a line must have one, a form, and its replacement."""


def _fitted(english: Callable[[re.Match[str]], str], match: re.Match[str]) -> str:
    """The English words, padded to the bytes of the printed ones; the latter if they are shorter."""
    words = english(match)
    size = len(match[0].encode("utf-8", "surrogateescape")) - len(words.encode())
    return match[0] if size < 0 else " " * size + words


def _name(match: re.Match[str]) -> str:
    metric = _METRIC_OF[match["metric"].lower()]
    phase = (match["phase"] or match["of"] or "").lower()
    named = f"{_PHASE_OF.get(phase) or _ENGLISH_PHASES[phase]}_{metric}" if phase else metric
    return f"avg_{named}" if match["mean"] or match["mean_behind"] else named


def _ordinal(match: re.Match[str]) -> str:
    word = "it" if match["noun"].endswith(("步", "ステップ", "迭代", "次训练")) else "ep"
    return f"{word} {match['count']}" + " " * len(match["noun"].encode())


_REPLACEMENTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_TAG, lambda match: f"[{_PHASE_OF[match['phase'].lower()]}]"),
    (_SIGN, lambda match: _SIGNS[match[0]]),
    (_EMOJI, lambda match: ""),
    (_GREEK, lambda match: ""),
    (_ARROW_IN_FRONT, lambda match: ""),
    (_ORDINAL, _ordinal),
    (_TIME, lambda match: "time"),
    (_SECONDS, lambda match: "s".ljust(len(match[0].encode()))),
    (_DONE_BEHIND, lambda match: "done"),
    (_NAME, _name),
    (_PHASED_ENGLISH, lambda match: f"{_PHASE_OF[match['phase'].lower()]}_{match['metric'].lower()}"),
    (_COUNTER, lambda match: _COUNTER_OF[match["word"].lower()]),
    (_COUNT_OF, lambda match: match["count"] + "/".rjust(len(match["of"].encode()))),
)
_ASCII = [word for word in (*_PHASE_OF, *_METRIC_OF, *_COUNTER_OF, *_DONE_OF) if word.isascii()]
_GERMAN = re.compile(rb"(?i)\b(?:" + "|".join(_ASCII).encode() + rb")\b")
