from itertools import product

import pytest

from batchai_magics.metrics.runs.metric_traits import (
    Direction,
    MetricKind,
    MetricPreferences,
    charts_of,
    find_metric,
    headline_of,
    is_default,
    ordered,
    traits_of,
)


def traits(*names):
    return [traits_of(name) for name in names]


def headline(*names, **preferences):
    return headline_of(traits(*names), MetricPreferences(**preferences))


def charts(*names):
    return [[line.name for line in chart] for chart in charts_of(traits(*names))]


@pytest.mark.parametrize(
    "name",
    ["loss", "val_loss", "lm_loss", "val_wer", "perplexity", "rmse", "val-error", "CELoss", "epe", "mpjpe",
     "loss_iou", "loss/giou", "decode.loss_dice", "loss_for_recall", "neg_log_likelihood", "accuracy_loss"],
)  # fmt: skip
def test_losses_and_errors_fall(name):
    assert traits_of(name).direction is Direction.FALLS


@pytest.mark.parametrize(
    "name",
    ["accuracy", "val_acc", "Acc@1", "top_5", "val_mAP50-95", "auc", "f1", "bleu", "rollout/ep_rew_mean",
     "val/pck", "mota", "error_score", "IoU", "FWIoU", "r2", "idf", "eprew", "mean_rew",
     "mfu", "images_per_sec", "tokens_per_second_per_gpu", "/s", "tps", "time/fps", "samplespersec"],
)  # fmt: skip
def test_scores_rewards_and_rates_rise(name):
    assert traits_of(name).direction is Direction.RISES


@pytest.mark.parametrize(
    "name", ["lr", "learning_rate", "grad_norm", "loss_scale", "memory", "ep_len_mean", "crew", "screw"]
)
def test_metric_that_is_no_measure_of_quality_has_no_direction(name):
    assert (traits_of(name).direction, traits_of(name).kind) == (Direction.UNKNOWN, MetricKind.OTHER)


@pytest.mark.parametrize("name", ["step_time", "data_time", "batch_cost", "val_runtime", "timing_s/step"])
def test_durations_are_timers(name):
    assert traits_of(name).kind is traits_of("interval", unit="ms").kind is MetricKind.TIMER


def test_the_user_sets_a_direction():
    wanted = MetricPreferences(rising=["energy"], falling=["score", "eval_margin"])
    assert wanted.direction(traits_of("val/margin")) is Direction.FALLS
    assert wanted.direction(traits_of("energy")) is Direction.RISES
    assert wanted.direction(traits_of("val_score")) is Direction.FALLS
    assert wanted.direction(traits_of("loss")) is Direction.FALLS


HEADLINES = {
    ("images_per_sec", "loss", "val_loss"): "val_loss",
    ("images_per_sec", "step_time", "loss"): "loss",
    ("step_time", "lr", "images_per_sec"): "images_per_sec",
    ("loss", "test_loss"): "test_loss",
    ("loss_cls", "loss_box_reg", "total_loss"): "total_loss",
    ("loss", "val_acc"): "val_acc",
    ("loss", "val_acc", "val_loss"): "val_loss",
    ("actor_loss", "critic_loss", "mean_reward", "mean_ep_length"): "mean_reward",
    ("policy_loss", "return_std", "episode_return"): "episode_return",
    ("loss", "loss_cls", "bbox_map", "val_loss"): "bbox_map",
    ("loss", "rewards/margins", "rewards/chosen"): "loss",
    ("loss_tok2vec", "ents_f", "score"): "score",
    ("loss_kl", "eplenmean", "eprewmean"): "eprewmean",
    ("loss_1", "loss_2", "ndcg"): "ndcg",
    ("learning_rate", "speed", "grad_norm"): "grad_norm",
    ("lr", "speed"): "speed",
    ("lr", "step_time"): "lr",
    ("step_time", "data_time"): "",
    (): "",
}


def test_headline_is_the_training_goal_and_never_a_timer():
    assert {names: headline(*names) for names in HEADLINES} == HEADLINES


def test_the_user_chooses_the_headline_by_either_name():
    assert headline("images_per_sec", "loss", headline="images/sec") == "images_per_sec"
    assert headline("step_time", "loss", headline="step_time") == "step_time"
    assert headline("loss", headline="absent") == "loss"
    for chosen in ("val_accuracy", "eval_accuracy", "val/accuracy", "accuracy"):
        assert headline("loss", "val_loss", "val_accuracy", headline=chosen) == "val_accuracy"


def test_four_charts_are_quality_and_a_rate_rather_than_timers():
    names = ("step_time", "loss", "data_time", "lr", "images_per_sec", "accuracy", "val_accuracy", "val_loss")
    assert charts(*names)[:4] == [
        ["loss", "val_loss"],
        ["images_per_sec"],
        ["accuracy", "val_accuracy"],
        ["lr"],
    ]
    assert [is_default(chart) for chart in charts_of(traits(*names))] == [True] * 4 + [False] * 2


def test_figures_of_the_whole_run_make_no_chart():
    assert charts("mean_images_per_sec_per_device", "devices", "loss") == [["loss"]]


def test_the_order_of_the_log_decides_between_equals():
    assert [each.name for each in ordered(traits("grad_norm", "lr", "memory"))] == [
        "grad_norm",
        "lr",
        "memory",
    ]


def test_a_metric_is_found_in_any_spelling_or_by_its_quantity():
    names = ["images_per_sec", "val_Acc", "train_loss"]
    assert find_metric(names, "images/sec") == "images_per_sec"
    assert find_metric(names, "VAL_acc") == "val_Acc"
    assert find_metric(names, "loss") == "train_loss"
    assert find_metric(names, "bleu") == ""
    for name, asked in product(
        ["val_loss", "val/loss", "eval_loss"], ["val_loss", "eval_loss", "validation/loss"]
    ):
        assert find_metric(["loss", name], asked) == name
