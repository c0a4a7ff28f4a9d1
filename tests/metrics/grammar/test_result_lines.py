# ruff: noqa: E501 - lines as programs print them
"""A log that tells no position has its numbers on lines that state results and nothing else."""

import pytest

from batchai_magics.metrics import Parser, read_metrics
from batchai_magics.metrics.reading.log_parser import read_table
from tests.metrics.grammar.test_line_forms import told

RESULTS = {
    "Accuracy: 0.93": "accuracy=0.93",
    "Test accuracy: 93.1%": "test_accuracy=93.1",
    "RMSE: 3.21": "rmse=3.21",
    "F1-score = 0.85": "f1-score=0.85",
    "accuracy:  97.50%; precision:  90.00%; recall:  88.00%; FB1:  89.00": "val_accuracy=97.5 val_precision=90 val_recall=88 val_f1=89",
    "final loss = 0.12, f1 = 0.8": "final_loss=0.12 f1=0.8",
    "RMSE = 3.21, MAE = 2.1, R2 = 0.87": "rmse=3.21 mae=2.1 r2=0.87",
    "MSE: 12.3 | MAE: 2.1": "mse=12.3 mae=2.1",
    "Balanced accuracy: 0.93 (+/- 0.02)": "balanced_accuracy=0.93",
    "ROC AUC: 0.97": "roc_auc=0.97",
    "Mean squared error: 25.41": "mean_squared_error=25.41",
    "mAP@0.5: 0.71": "map@0.5=0.71",
    "Validation Dice score: 0.71": "val_dice_score=0.71",
    "2026-03-02 10:00:00,087 INFO Validation F1: 0.85": "val_f1=0.85",
    "Accuracy of the network on the 10000 test images: 55 %": "test_accuracy=55",
    "accuracy 0.93": "accuracy=0.93",
    "Mean absolute error                      0.035": "mean_absolute_error=0.035",
    "test acc 0.9312, test loss 0.2345": "test_acc=0.9312 test_loss=0.2345",
    "Test loss: 0.2345 - Test acc: 93.10%": "test_loss=0.2345 test_acc=93.1",
    "Training accuracy 0.99 / testing accuracy 0.93": "training_accuracy=0.99 test_accuracy=0.93",
    "Test Accuracy of the model: 93 %": "test_accuracy=93",
    "Accuracy of the network on the test images: 93 %": "test_accuracy=93",
    "Accuracy on test set: 0.931": "test_accuracy=0.931",
    "accuracy on the validation set = 91.2%": "val_accuracy=91.2",
    "The accuracy is 0.93": "accuracy=0.93",
    "Final accuracy is 93.10%.": "final_accuracy=93.1",
    "R²: 0.87": "r2=0.87",
    "MAE: 2.1 | R^2: 0.87": "mae=2.1 r2=0.87",
    "R2 = 0.87": "r2=0.87",
    "R^2: 0.87": "r2=0.87",
    "Test R^2 = 0.87": "test_r2=0.87",
    "Adjusted R²: 0.86": "adjusted_r2=0.86",
    "R-squared: 0.87": "r2=0.87",
    "R^2 score: -0.12": "r2_score=-0.12",
    "mIoU: 0.71": "miou=0.71",
    "IoU = 0.65": "iou=0.65",
    "meanIoU: 71.2%": "meaniou=71.2",
    "FWIoU: 0.81, MIoU: 0.71": "fwiou=0.81 miou=0.71",
    "mIoU 0.71, mAcc 0.82, aAcc 0.93": "miou=0.71 macc=0.82 aacc=0.93",
    "Pixel accuracy: 0.93": "pixel_accuracy=0.93",
    "Accuracy: 0.81234+-0.01234": "accuracy=0.81234",
    "Fold 2 | AUC: 0.81": "auc=0.81",
    "fold 3: accuracy = 0.82": "accuracy=0.82",
    "RandomForest accuracy: 0.94": "randomforest_accuracy=0.94",
    "XGBoost accuracy: 0.94": "xgboost_accuracy=0.94",
    "SVM accuracy: 0.94": "svm_accuracy=0.94",
    "VGG16 accuracy: 0.94": "vgg16_accuracy=0.94",
}
NO_RESULTS = (
    *("accuracy: 93", "mse: 1", "error: 404", "iou: 0.7", "margin: 0.5", "lr: 0.1", "loss: mse"),
    *("target accuracy: 0.95", "score_threshold: 0.5", "mae_weight: 0.25", "batch size: 32", "epochs: 10"),
    *("loss: 0.5", "Training loss: 0.5", "accuracy: 0.9, lr: 0.1", "  accuracy: 0.93", "recall 0.5"),
    *("accuracy: 9 of 10", "accuracy: 0.93 is enough", "accuracy 0.93 is enough", "SCORE=0.5"),
    *("Target accuracy: 0.95", "MAX_ACC: 0.9", "MAX ACC: 0.9", "NMS IoU: 0.65", "GPU score: 98.5"),
    *("BASELINE accuracy: 0.93", "REQUIRED accuracy: 0.93", "THRESHOLD accuracy: 0.93"),
    *("PREVIOUS accuracy: 0.93", "EXPECTED accuracy: 0.93", "SOTA accuracy: 0.93", "HUMAN accuracy: 0.93"),
    *("MIN_ACC accuracy: 0.93", "Min_ACC accuracy: 0.93", "Baseline_ACC accuracy: 0.93"),
    *("iou=0.5, conf=0.25", "IoU threshold = 0.65", "the accuracy should be 0.93", "recall 0.5 of all"),
    *("R^2 is 0.87 of 1", "r-squared distance: 12", "IoU 0.65", "with accuracy 0.93", "mIoU threshold: 0.5"),
)


def read(text):
    return [tuple(record) for record in read_table([text.encode()])]


@pytest.mark.parametrize("line", RESULTS)
def test_a_line_of_results_needs_no_position(line):
    (expected,) = told(RESULTS[line])
    assert {record[0]: record[1] for record in read(f"loading\n{line}\ndone\n")} == expected


def test_a_setting_or_a_sentence_is_no_result():
    assert [line for line in NO_RESULTS if read(f"loading\n{line}\n")] == []


def test_results_are_read_alike_at_once_and_as_they_are_printed():
    text = "".join(f"{line}\n" for line in (*NO_RESULTS, *RESULTS)).encode()
    parser = Parser()
    printed = [record for at in range(len(text)) for record in parser.feed(text[at : at + 1])]
    at_once = read(text.decode())
    assert [tuple(record) for record in printed + parser.finish()] == at_once
    assert len(at_once) == "".join(RESULTS.values()).count("=")


def test_digits_do_not_decide_what_a_line_states():
    lines = ("top-5 accuracy: 0.9", "top-1 accuracy: 10.25", "acc@1: 0.5", "acc@10: 0.5")
    assert [record[0] for line in lines for record in read(f"{line}\n")] == [
        record[0] for record in read("".join(f"{line}\n" for line in lines))
    ]


def test_results_below_a_result_of_keras_are_read():
    assert [record[0] for record in read("Test accuracy: 0.9904\nRecall: 0.8\n")] == [
        "test_accuracy",
        "recall",
    ]


def test_a_result_of_a_phase_is_at_the_last_position():
    last = read("Epoch 1 loss 0.5\nEpoch 2 loss 0.4\nTest F1: 0.85\n")[-1]
    assert (last[0], last[4]) == ("test_f1", 2)


def test_a_summary_shows_results_without_a_position(tmp_path):
    log = tmp_path / "stdout.txt"
    log.write_text("loading\nAccuracy: 0.93\nF1: 0.85\n", encoding="utf-8")
    read_log = read_metrics(log)
    assert [(metric.label, metric.text) for metric in read_log.summary().metrics] == [
        ("accuracy", "0.93"),
        ("f1", "0.85"),
    ]
    assert not read_log.notices
