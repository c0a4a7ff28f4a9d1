"""Lines that state results and nothing else, as a script prints at its end: `Test accuracy: 93.1%`.

They are measurements even where no line tells a step. Names are those of well-known measures, and numbers are
fractions or percentages, as few settings are. A loss needs a word such as `final` or `test`, since training
prints it all the time.
"""

from __future__ import annotations

import re

from batchai_magics.metrics.grammar.metric_names import R_SQUARED

_OF = (
    rb"(?:test|testing|validation|valid|val|eval|evaluation|dev|train|training|final|overall|average|averaged"
    rb"|avg|mean|median|macro|micro|weighted|balanced|model|top[ -]?\d{1,2}|cross[ -]validation|cv|root"
    rb"|squared|absolute|adjusted|percentage|log|roc|pr|word|character|pixel|class|hold-?out)"
)
_MEASURE = (
    rb"(?:" + R_SQUARED.encode() + rb"|r2"
    rb"|accuracy|[am]?acc|f(?:b(?:eta)?)?[_-]?[12]|precision|recall|auc|auroc|auprc|rmse|rmsle|mae|mse|mape"
    rb"|bleu(?:-\d)?|rouge(?:-?[12l])?|chrf|meteor|perplexity|ppl|map(?:50|75|@\d\.\d{1,2}|@\d{1,3})?|m?ap50|(?:m|fw|mean)iou|(?-i:IoU|IOU)"
    rb"|dice|fid|wer|cer|ndcg(?:@\d{1,3})?|mrr|logloss|silhouette|acc@\d{1,2}|pass@\d{1,3})"
)
_BEHIND_OTHERS = rb"(?:loss|error|iou|score|entropy|mr|hits@\d{1,3})"
_DATA = rb"(?:test|testing|validation|valid|val|dev|train|training|hold-?out|held-out|unseen)"
_ON = (
    rb"(?:[ ](?:on|for|of|over)[ ](?:the[ ])?(?:model|network|classifier|"
    + _DATA
    + rb"(?:[ ](?:set|split|data|dataset|images|samples|examples))?)){0,2}"
)
_NAME = (
    rb"(?!train(?:ing)?[ _/-]loss)(?:the[ ])?"
    rb"(?:(?:" + _OF + rb"[ _/-]){0,4}" + _MEASURE + rb"(?:[ _-](?:score|macro|micro|weighted|avg|mean))?"
    rb"|(?:" + _OF + rb"[ _/-]){1,4}" + _BEHIND_OTHERS + rb"|score(?!=))" + _ON
)
_SPREAD = rb"(?:[ ]?\(?(?:\+/?-|\xc2\xb1)[ ]?\d{1,9}(?:\.\d{1,20})?%?\)?)?"
_VALUE = rb"-?\d{1,9}(?:\.\d{1,20}(?:[eE][-+]\d{1,3})?(?:[ ]?%)?|[ ]?%)" + _SPREAD
_COMMENTS = rb"(?:[ ]\([^()\n]{1,40}\)){0,2}"
_PAIR = _NAME + rb"(?:[ ]?[:=][ \t]{0,20}|[ ]is:?[ ]|[ \t]{1,40})" + _VALUE + _COMMENTS
_FOLD = rb"(?:(?:fold|split|seed|repeat)[ ]?#?\d{1,6}(?:[ ]?/[ ]?\d{1,6})?[ ]?[:,|-]?[ ])?"
_FAMILIES = (
    rb"(?:SVM|SVC|SVR|KNN|MLP|DNN|ANN|CNN|RNN|LSTM|GRU|GCN|GAT|GNN|VGG|VIT|BERT|GPT|GBM|GBDT|LGBM|XGB|CART"
    rb"|RF|DT|LR|NB|GNB|LDA|QDA|SGD)"
)
_MODEL = (  # `RandomForest accuracy: 0.93`, but `NMS IoU: 0.65`, `BASELINE accuracy: 0.93`
    rb"(?:(?!(?:min|max|target|goal|baseline|required|threshold|previous|expected|sota|human)[ _])"
    rb"(?-i:(?=\w*[a-z])[A-Z]\w*[A-Z]\w*|" + _FAMILIES + rb"-?\d{0,4})[ ](?!m?iou|score|map))?"
)
_RESULT = re.compile(
    rb"(?i)"
    + _FOLD
    + _MODEL
    + _PAIR
    + rb"(?:(?:[ ]?[,;|/][ ]?|[ ]-[ ]|[ \t]{1,8})"
    + _PAIR
    + rb"){0,11}\.?[ \t]*"
)
_MAY_BE_SETTING = re.compile(rb"(?i)(?:recall|precision|score|map|iou)[ \t]+" + _VALUE)


def states_results(text: bytes, begin: int) -> bool:
    """Whether a line has nothing but names of well-known measures and their numbers from `begin` on."""
    if text[max(0, begin - 2) : begin].isspace() or _MAY_BE_SETTING.fullmatch(text, begin):
        return False
    return _RESULT.fullmatch(text, begin) is not None
