# ruff: noqa: E501 - lines as programs print them
"""What only one program prints: tables of lines, prefixes and tables, each with a sample in which numbers are marked.

The grammar reads most programs without a row here. To add one that it cannot read, add a row: a line as the
program prints it, without prefixes, in which these are marked:

* `<loss=0.5>`, a number and its metric; `<step=10>`, `<epoch=1>`, `<rank=0>`, `<seconds=1541026345.1>`, which
  are positions; `<total=48>`, the step at which an epoch ends
* `<step_time[s]=5ms>`, a number with a unit, which may be printed in milliseconds; `<epoch_time![s]=1s>`, which
  counts only where the step is the total
* `<name:accuracy>`, a text that names of numbers may hold: `<{name}=0.5>`; `<phase:eval>`, which is the phase of
  the numbers; `<json:{"loss": 0.5}>`, an object; `<*:1:02>`, any text
* `?{an optional part}?` and `[[a part that repeats||separator]]`

All other numbers of a sample are any numbers. One that is marked and has a point always has it. A line is found
by a text of at least eight characters, or by words of training, as the grammar finds its lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from batchai_magics.metrics.grammar.parsed_line import LineKind


@dataclass(frozen=True, kw_only=True)
class ProgramLine:
    """A line that only one program prints.

    `kind` is its role for the lines around it, None if no number on it is a metric. `phase` is the phase of its
    numbers. `words` are expressions for marks that are not any text or number. `names` are the metrics and
    units of names that the sample gives, whose expressions may have groups; an empty one leaves the number out.
    `has_fixed_width`: its numbers have so many decimals that other lines may touch it.
    """

    program: str
    sample: str
    kind: LineKind | None = LineKind.OBJECT
    phase: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    has_fixed_width: bool = False


_NAME = {"name": r"[A-Za-z_][\w./@-]{0,80}"}
_KERAS = {
    "name": r"[A-Za-z_][\w./ ]{0,80}?",
    "bar": r"[=>.]*",
    "line": r"(?:[^ -~]|\?)*(?: +(?:[^ -~]|\?)+)?",
    "left": r"[\d:]{1,12}s?",
    "per": "step|sample|epoch",
}
_KERAS_METRICS = "[[ - <name:loss>: <{name}=0.9490>]]"
_METERS = "[[\t<name:Time> <{name}=0.312> ( 0.411)]]"
_METER_NAMES = {
    "Time": "step_time[s]",
    "Data": "data_time[s]",
    "Loss": "loss",
    "(?:Acc|Prec)@([15])": r"top_\1[%]",
}
_METER = {"name": "Time|Data|Loss|(?:Acc|Prec)@[15]"}
_ERROR_NAMES = {"Minibatch": "error[%]", "Validation": "val_error[%]", "Test": "test_error[%]"}
_CNTK = {"name": r"[A-Za-z_][\w.]{0,80}"}
_CNTK_METRICS = "[[<name:loss> = <{name}=2.302585> * 6400||, ]]"
_CNTK_NODES = "[[<name:ce> = <{name}=0.28911>?{ * 60000}?||; ]]"
_MLPERF = {"style": r"(?:L|LOG|Pv0\.5\.0)(?: [A-Za-z][\w.-]*)?"}
_AGENT = {"phase": "pretrain|train|eval", "name": "[A-Z][A-Z_]{0,7}"}
_AGENT_NAMES = {
    "R": "episode_reward", "S": "episode_success", "L": "episode_length", "D": "duration[s]",
    "BR": "batch_reward", "A_?LOSS": "actor_loss", "C(?:R_)?LOSS": "critic_loss", "TLOSS": "alpha_loss",
    "TVAL": "alpha_value", "AENT": "actor_entropy", "BS|E": "",
}  # fmt: skip

_TICK = {"name": r"[a-z][a-z/]*"}
_TICK_TIMES = " time <*:8m 39s> [[ <name:sec/tick> <{name}=512.12>]]"

_DEVICE = {"*": "[CGT]PU"}
_BENCHMARK = {
    "step": r"\d{1,300}",
    **dict.fromkeys(("images_per_sec", "uncertainty", "jitter"), r"\d+\.\d"),
    "eval_examples_per_sec": r"(?<=[ \t])\d+\.\d",  # no part of a number: `loss = 3.1 (64.1 examples/sec`
    "loss": r"-?(?:nan|inf|\d+\.\d{3})",
    **dict.fromkeys(("top_1", "top_5"), r"(?<=[ \t])(?:nan|\d\.\d{3})"),
    **dict.fromkeys(("eval_top_1", "eval_top_5"), r"nan|\d\.\d{4}"),
    "eval_examples": r"\d{1,18}",
    "seconds": r"(?<=[ \t])1\d{9}(?:\.\d{1,9})?",
    "accuracy": "Accuracy|Precision",
    "recall": "Accuracy|recall",
}

PROGRAM_LINES = (
    ProgramLine(
        program="tf_cnn_benchmarks",
        sample="<step=10>\timages/sec: <images_per_sec[images/sec]=61.9> +/- <uncertainty[images/sec]=1.8>"
        " (jitter = <jitter[images/sec]=8.0>)\t<loss=7.087>?{\t<top_1[fraction]=0.125>\t<top_5[fraction]=0.500>}?"
        "?{ <seconds=1587077440>}?",
        words=_BENCHMARK,
        has_fixed_width=True,
    ),
    ProgramLine(
        program="tf_cnn_benchmarks",
        sample="<step=20>\t<eval_examples_per_sec[examples/sec]=412.7> examples/sec",
        words=_BENCHMARK,
        has_fixed_width=True,
    ),
    ProgramLine(
        program="tf_cnn_benchmarks",
        sample="<accuracy:Accuracy> @ 1 = <eval_top_1[fraction]=0.1234> <recall:Accuracy> @ 5 = "
        "<eval_top_5[fraction]=0.5678> [<eval_examples[examples]=50000> examples]",
        words=_BENCHMARK,
        has_fixed_width=True,
    ),
    ProgramLine(program="tf_cnn_benchmarks", sample="<step=10>\timages/sec: <*:61.9 +/->", kind=None),  # cut
    ProgramLine(
        program="tf_cnn_benchmarks",
        sample="<*:total> images/sec: 1740.38",
        kind=None,
        words={"*": "[Tt]otal"},
    ),
    ProgramLine(
        program="Keras 2",
        sample="<step=48>/<total=48> [<bar:====>] - <epoch_time![s]=1s>?{ <step_time[s]=5ms>/<per:step>}?"
        + _KERAS_METRICS,
        kind=LineKind.REDRAWN,
        words=_KERAS,
    ),
    ProgramLine(
        program="Keras 2",
        sample="<step=640>/<total=60000> [<bar:====>] - ETA: <left:1:02>?{ <step_time[s]=5ms>/<per:step>}?"
        + _KERAS_METRICS,
        kind=LineKind.REDRAWN,
        words=_KERAS,
    ),
    ProgramLine(
        program="Keras 3",
        sample="<step=48>/<total=48> <line:━━━━> <epoch_time![s]=0s> <step_time[s]=714us>/<per:step>"
        + _KERAS_METRICS,
        kind=LineKind.REDRAWN,
        words=_KERAS,
    ),
    ProgramLine(
        program="Keras 3",
        sample="<step=10>/<total=48> <line:━━━━> <left:1:24> <step_time[s]=714us>/<per:step>"
        + _KERAS_METRICS,
        kind=LineKind.REDRAWN,
        words=_KERAS,
    ),
    ProgramLine(
        program="Keras",
        sample="?{<step=48>/<total=48> }?- <epoch_time![s]=1s>?{ ?{- }?<step_time[s]=5ms>/<per:step>}?"
        + _KERAS_METRICS
        + "?{ - 953ms/epoch - <step_time[s]=20ms>/<per:step>}?",
        kind=LineKind.REDRAWN,
        words=_KERAS,
    ),
    ProgramLine(program="Keras examples", sample="Test loss: <test_loss=0.0291>"),
    ProgramLine(program="Keras examples", sample="Test accuracy: <test_accuracy[fraction]=0.9888>"),
    ProgramLine(
        program="keras-retinanet",
        sample="<instances/{label}[examples]=614> instances of class <label:person> with average precision:"
        " <average_precision/{label}[fraction]=0.5123>",
    ),
    ProgramLine(
        program="keras-retinanet",
        sample="mAP: <mean_average_precision[fraction]=0.4512>",
        words={"mean_average_precision": r"\d\.\d{4}|nan"},
    ),
    ProgramLine(
        program="PyTorch mnist",
        sample="?{4711\t}?Test set: Average loss: <test_loss=0.0563>, Accuracy: <test_correct[examples]=9821>/"
        "<test_examples[examples]=10000> (<test_accuracy[%]=98>%)",
    ),
    ProgramLine(
        program="PyTorch ImageNet",
        sample="Epoch: [<epoch=0>][ <step=10>/<total=5005>]" + _METERS,
        words=_METER,
        names=_METER_NAMES,
    ),
    ProgramLine(
        program="PyTorch ImageNet",
        sample="Test: [ <step=10>/196]" + _METERS,
        phase="val",
        words=_METER,
        names=_METER_NAMES,
    ),
    ProgramLine(
        program="PyTorch ImageNet",
        sample="* <name:Acc>@1 <val_top_1[%]=69.758> <name:Acc>@5 <val_top_5[%]=89.078>",
        words={"name": r"(?<!O  \* )(?:Acc|Prec)", "val_top_1": r"\d+\.\d{3}", "val_top_5": r"\d+\.\d{3}"},
    ),
    ProgramLine(
        program="PyTorch CIFAR-10",
        sample="Accuracy of the network on the 10000 test images: <test_accuracy[%]=55> %",
        kind=LineKind.BELOW,
    ),
    ProgramLine(
        program="tf.estimator",
        sample="loss = <loss=7>, step = <step=0> (<interval_time[s]=12> sec)",
    ),
    ProgramLine(program="tf.estimator", sample="global_step/sec: <steps_per_sec[steps/sec]=34>"),
    ProgramLine(program="tf.estimator", sample="examples/sec: <samples_per_sec[samples/sec]=245>"),
    ProgramLine(
        program="tf.estimator",
        sample="Saving dict for global step <step=100>: [[<name:loss> = <{name}=3>||, ]]",
        phase="val",
        words=_NAME,
        names={"global_step": ""},
    ),
    ProgramLine(
        program="TF-Slim", sample="global step <step=5>: loss = <loss=62> (<step_time[s]=20> sec/step)"
    ),
    ProgramLine(
        program="mnist_replica.py",
        sample="?{<seconds=1549883160.123456>: }?Worker <rank=0>: training step <local_step[steps]=15> done (global step: <step=29>)",
    ),
    ProgramLine(
        program="mnist_replica.py", sample="Training elapsed time: <training_time[s]=12.345678> s"
    ),
    ProgramLine(
        program="mnist_replica.py",
        sample="After <step=200> training step(s), validation cross entropy = <val_cross_entropy=1234>",
    ),
    ProgramLine(
        program="convolutional.py", sample="Step <step=8100> (epoch 9.43), <step_time[s]=8.4 ms>"
    ),
    ProgramLine(
        program="convolutional.py",
        sample="Minibatch loss: <loss=1.652>, learning rate: <learning_rate=0.006302>",
        kind=LineKind.BELOW,
    ),
    ProgramLine(
        program="convolutional.py",
        sample="<set:Validation> error: <{set}=1.0>%",
        kind=LineKind.BELOW,
        words={"set": "Minibatch|Validation|Test"},
        names=_ERROR_NAMES,
    ),
    ProgramLine(
        program="CNTK",
        sample="Minibatch[ 1- <step=100>]: " + _CNTK_METRICS + ";",
        words=_CNTK,
    ),
    ProgramLine(
        program="CNTK",
        sample="Evaluation Minibatch[ 1- <step=100>]: " + _CNTK_METRICS + ";",
        phase="test",
        words=_CNTK,
    ),
    ProgramLine(
        program="CNTK",
        sample="Finished Epoch[<epoch=1> of 10]: ?{[Training] }?" + _CNTK_METRICS
        + " <epoch_time[s]=12.345s> (<total_samples_per_sec[samples/sec]=4860.3> samples/s);",
        words=_CNTK,
    ),
    ProgramLine(
        program="CNTK",
        sample="Finished Evaluation [1]: Minibatch[1-<step=79>]: " + _CNTK_METRICS + ";",
        phase="test",
        words=_CNTK,
    ),
    ProgramLine(
        program="CNTK BrainScript",
        sample="Epoch[ <epoch=1> of 3]-Minibatch[ 1- <step=100>?{, 10.67%}?]: " + _CNTK_NODES
        + "; time = <minibatch_time[s]=0.1234s>; samplesPerSecond = <total_samples_per_sec[samples/sec]=51863>",
        words=_CNTK,
    ),
    ProgramLine(
        program="CNTK BrainScript",
        sample="Finished Epoch[ <epoch=1> of 3]: [Training] " + _CNTK_NODES
        + "; totalSamplesSeen = <samples_seen[samples]=60000>"
        "?{; learningRatePerSample = <learning_rate_per_sample=0.003125>}??{; epochTime=<epoch_time[s]=1.23456s>}?",
        words=_CNTK,
    ),
    ProgramLine(
        program="CNTK BrainScript",
        sample="Finished Epoch[ <epoch=1> of 3]: [Validate] " + _CNTK_NODES
        + "; totalSamplesSeen = <samples_seen[samples]=60000>",
        phase="val",
        words=_CNTK,
    ),
    ProgramLine(
        program="Caffe",
        sample="Log file created at: <year=2018>/<month=06>/08 01:25:29",
        kind=LineKind.YEAR,
    ),
    ProgramLine(
        program="Caffe",
        sample="Iteration <step=100> (<iterations_per_sec[iterations/sec]=271> iter/s, 0s/100 iter?{s}?), "
        "loss = <loss=1>",
    ),
    ProgramLine(program="Caffe", sample="Iteration <step=0>, lr = <learning_rate=1>"),
    ProgramLine(program="Caffe", sample="Iteration <step=500>, Testing net (#0)", kind=LineKind.HEADING),
    ProgramLine(
        program="Caffe",
        sample="<set:Test> net output #0: <name:accuracy> = <{set}_{name}=1>?{ (* 1 = 1 loss)}?",
        kind=LineKind.BELOW,
        words=_NAME | {"set": "Train|Test"},
        names={"Train_(.*)": r"train_\1", "Test_(.*)": r"test_\1"},
    ),
    ProgramLine(
        program="Caffe2",
        sample="Finished iteration <step=1>/<total=31> of epoch <epoch=0> (<images_per_sec[images/sec]=4.34> images/sec)",
    ),
    ProgramLine(
        program="Caffe2",
        sample="Training loss: <loss=6.90421>, accuracy: <accuracy[fraction]=0.03125>",
        kind=LineKind.BELOW,
    ),
    ProgramLine(
        program="DLLogger",
        sample='DLLL <json:{"type": "LOG", "step": [0, 10], "data": {"train.loss": 6.9}}>',
    ),
    ProgramLine(
        program="DLLogger",
        sample="(<epoch=2>, <step=20>?{, 3}?) [[<name:ce_loss> : <{name}=0>?{ <unit:None>}?||  ]]",
        words=_NAME | {"unit": r"(?!\S+ : )[^\s:]+"},
    ),
    ProgramLine(
        program="MLPerf",
        sample=':::ML?{L}??{LOG}? <json:{"time_ms": 1592000000000, "key": "eval_accuracy", "value": 0.75}>',
        kind=LineKind.REDRAWN,
    ),
    ProgramLine(
        program="MLPerf",
        sample=":::ML<style:Pv0.5.0> <seconds=1541026345.123> ?{(<*:run_loop.py:101>) }?<name:eval_accuracy>"
        '?{ }?: <json:{"epoch": 1, "value": 0.107}>',
        kind=LineKind.REDRAWN,
        words=_NAME | _MLPERF,
    ),
    ProgramLine(
        program="MLPerf",
        sample=":::ML<style:Pv0.5.0> <seconds=1541026345.123> ?{(<*:run_loop.py:101>) }?<name:train_loss>"
        "?{ }?: <{name}=12>",
        kind=LineKind.REDRAWN,
        words=_NAME | _MLPERF,
    ),
    ProgramLine(
        program="TD-MPC2",
        sample="<phase:eval> ?{| }?E: 3 I: <step=50,000>[[ <name:R>: <{name}=242.2>]]?{ T: 0:00:05}?",
        kind=LineKind.STEP,
        words=_AGENT,
        names=_AGENT_NAMES,
    ),
    ProgramLine(
        program="DrQ",
        sample="<phase:train> | ?{F: 6000 | }??{E: 12 | }?S: <step=3000>[[ | <name:R>: <{name}=12>?{ s}?]]"
        "?{ | T: 0:00:42}?",
        kind=LineKind.STEP,
        words=_AGENT,
        names=_AGENT_NAMES,
    ),
    ProgramLine(
        program="COCO",
        sample="Average <*:Precision> (<kind:AP>) @[ IoU=<iou:0.50:0.95> | area= <area:all> | maxDets= <most:100> ]"
        " = <{kind} {iou} {area} {most}=0.312>",
        kind=LineKind.LOOSE,
        phase="val",
        words={"*": "Precision|Recall", "kind": "AP|AR", "iou": r"[\d.:]+", "area": r"\w+", "most": r"\d+"},
        names={
            r"AP 0\.50:0\.95 all .*": "ap",
            r"AP 0\.(50|75) all .*": r"ap\1",
            r"AR .* all (.*)": r"ar@\1",
            r"(A)(P|R) .* (\w+) .*": r"\1\2_\3",
        },
    ),
    ProgramLine(
        program="Kaldi",
        sample="Average objective function for '<name:output>' for minibatches 0-<step=99> is"
        " <objective_{name}=-0> over <*:640000 frames.>",
        kind=LineKind.STEP,
        phase="train",
        words=_NAME,
    ),
    ProgramLine(
        program="Kaldi",
        sample="Overall average objective function for '<name:output>' is <overall_objective_{name}=-0.213>"
        " over <*:1.2e+06 frames.>",
        kind=LineKind.BELOW,
        words=_NAME,
    ),
    ProgramLine(
        program="Torch7",
        sample="?{<*:<trainer>> }?online epoch # <epoch=1> [batchSize = 128]",
        kind=LineKind.HEADING,
        words={"*": "<trainer>"},
    ),
    ProgramLine(
        program="MXNet for R",
        sample="[<epoch=1>] Train-<name:accuracy>=<train_{name}=0.7023>?{ Validation-<name:accuracy>="
        "<val_{name}=0.6123>}?",
        words={"name": r"[A-Za-z][\w-]{0,40}"},
    ),
    ProgramLine(
        program="tinygrad",
        sample="<step=3> <run_time[s]=93.44 s> run, ?{<*:1.02 ms python,> }?<loss=11.5000> loss, <lr=0.000305> LR,"
        " <*:642.43 GB used, 236258.78 GFLOPS>",
        kind=LineKind.STEP,
        words={"*": r"[^\n]{0,120}"},
    ),
    ProgramLine(
        program="NEAT-Python",
        sample="Population's average fitness: <average_fitness=3.17> stdev: <stdev_fitness=1.21>",
        kind=LineKind.BELOW,
    ),
    ProgramLine(
        program="keras-rl",
        sample="12 episodes - episode_reward: <episode_reward=10.083> [5.000, 21.000]"
        "[[ - <name:loss>: <{name}=0.312>]]",
        kind=LineKind.BELOW,
        words=_NAME,
    ),
    ProgramLine(
        program="Sample Factory",
        sample="Fps is (10 sec: <fps=40960>, <*:60 sec: 39321.6>). Total num frames: <step=1638400>.<*:>",
        kind=LineKind.STEP,
        phase="train",
    ),
    ProgramLine(
        program="MAPPO",
        sample="<env:Map> <*:3m Algo rmappo> updates 0/3125 episodes, total num timesteps <step=3200>/10000000,"
        " FPS <fps=312>.",
        kind=LineKind.STEP,
        phase="train",
        words={"env": "Map|Env|Scenario"},
    ),
    ProgramLine(
        program="PyMARL",
        sample="?{my_main }?Recent Stats | t_env: <step=10050> | Episode: 200",
        kind=LineKind.HEADING,
    ),
    ProgramLine(
        program="deep-text-recognition-benchmark",
        sample="Current_accuracy : <current_accuracy=81.123>, Current_norm_ED  : <current_norm_ed=0.91>",
        kind=LineKind.LOOSE,
        phase="val",
    ),
    ProgramLine(program="CORL", sample="Time steps: <step=5000>", kind=LineKind.HEADING),
    ProgramLine(
        program="CORL, TD3",
        sample="Evaluation over 10 episodes: <episode_return=1234>?{?{ }??{,}? D4RL score: <d4rl_score=38>}?",
        kind=LineKind.LOOSE,
        phase="val",
    ),
    ProgramLine(
        program="Flower",
        sample="fit progress: (<step=1>, <loss=2.3012>, {?{[['<name:accuracy>': <{name}=0.1123>||, ]]}?}, 12.34)",
        kind=LineKind.STEP,
        phase="val",
    ),
    ProgramLine(
        program="build-nanogpt",
        sample="HellaSwag accuracy: 2534/10042=<hellaswag_accuracy=0.2523>",
        kind=LineKind.LOOSE,
        phase="val",
    ),
    ProgramLine(
        program="makemore",
        sample="<step=10000>/ <total=200000>: <loss=2.1234>",
        kind=LineKind.STEP,
        phase="train",
        words={"loss": r"\d{1,6}\.\d{4,20}"},
    ),
    ProgramLine(
        program="InsightFace",
        sample="[<set:lfw>][<step=2000>]<name:Accuracy-Flip>: <{set}/{name}=0.98123>?{+-0.00512}?",
        kind=LineKind.STEP,
        phase="val",
        words={"set": r"[a-z]\w*", "name": r"(?![\w-]*-Highest)[A-Z][\w-]*"},
    ),
    ProgramLine(
        program="Horovod",
        sample="Iter #<step=3>: <images_per_sec_per_device[images/sec]=101.2> img/sec per <*:GPU>",
        words=_DEVICE,
    ),
    ProgramLine(
        program="Horovod",
        sample="Img/sec per <*:GPU>: <mean_images_per_sec_per_device[images/sec]=101.4> "
        "+-<spread_images_per_sec_per_device[images/sec]=2.3>",
        words=_DEVICE,
    ),
    ProgramLine(
        program="Horovod",
        sample="Total img/sec on <devices[devices]=8> <*:GPU>(s): 811.3 "
        "+-<spread_total_images_per_sec[images/sec]=18.6>",
        words=_DEVICE,
    ),
    ProgramLine(program="Horovod", sample="Step #<step=130>\tLoss: <loss=0.412031>"),
    ProgramLine(
        program="Horovod",
        sample="Test set: Average loss: <test_loss=0.0563>, Accuracy: <test_accuracy[%]=98.21>%",
    ),
    ProgramLine(
        program="Habitat",
        sample="Average window size: 50[[  <name:reward>: <{name}=0.123>]]",
        kind=LineKind.LOOSE,
        phase="train",
        words=_NAME,
    ),
    ProgramLine(
        program="PyTorch-BigGraph",
        sample="( 0 , 0 ): ?{stats after 10: }?[[<name:loss>:  <{name}=5>|| , ]]",
        kind=LineKind.LOOSE,
        phase="train",
        words=_NAME,
        names={"count": ""},
    ),
    ProgramLine(program="CleanRL", sample="SPS: <sps=1108>", kind=LineKind.LOOSE, phase="train"),
    ProgramLine(
        program="Megatron Bridge",
        sample="Step Time : <step_time[s]=10.17s> GPU utilization: <gpu_utilization[MODEL_TFLOP/s/GPU]=412.1>MODEL_TFLOP/s/GPU",
        kind=LineKind.LOOSE,
        phase="train",
    ),
    ProgramLine(
        program="PaddleOCR",
        sample="cur metric, [[<name:acc>: <{name}=0.4211>||, ]]",
        kind=LineKind.LOOSE,
        phase="val",
        words=_NAME,
    ),
    ProgramLine(
        program="CHGNet",
        sample="*   [[<name:e_MAE> (<{name}=0.062>) ]]",
        kind=LineKind.LOOSE,
        phase="val",
        words={"name": r"\w{1,30}_MAE"},
    ),
    ProgramLine(
        program="DGL-KE",
        sample="?{[Train]}?(<step=1000>/24000) average <name:pos_loss>: <average_{name}=0.5451262>",
        kind=LineKind.STEP,
        phase="train",
        words={"name": r"(?:\w{1,30}_)?loss"},
    ),
    ProgramLine(
        program="StyleGAN, EDM",
        sample="tick <step=1> kimg <kimg=140.3> ?{lod <lod=6.00> minibatch 64 }?" + _TICK_TIMES,
        kind=LineKind.STEP,
        phase="train",
        words=_TICK,
    ),
    ProgramLine(
        program="EDM2",
        sample="?{Status: }?kimg <step=131><*:.1>" + _TICK_TIMES,
        kind=LineKind.STEP,
        phase="train",
        words=_TICK,
    ),
    ProgramLine(
        program="Cellpose",
        sample="<epoch=0>, train_loss=<train_loss=0.3123>, test_loss=<test_loss=0.3323>, LR=<lr=0.0000>, "
        "time <time[s]=2.31s>",
        kind=LineKind.STEP,
    ),
    ProgramLine(
        program="ParlAI",
        sample="time:10s total_exs:32000 total_steps:<step=500>?{ epochs:<epoch=0.24>}??{ time_left:41s}?",
        kind=LineKind.HEADING,
    ),
    ProgramLine(
        program="pytorch-a2c-ppo-acktr",
        sample="Last 10 training episodes: mean/median reward <mean_reward=21.3>/<median_reward=20.0>, "
        "min/max reward <min_reward=9.0>/<max_reward=42.0>",
        kind=LineKind.LOOSE,
        phase="train",
    ),
    ProgramLine(
        program="torch-ac",
        sample="U 1 | F <step=002048> | FPS <fps=1234> | D 1 | rR:μσmM <return_mean=0.12> 0.21 0.00 0.94"
        " | F:μσmM 12.3 4.5 2.0 20.0 | H <entropy=1.234> | V <value=0.123> | pL <policy_loss=-0.012>"
        " | vL <value_loss=0.003> | ∇ <grad_norm=0.123>",
        kind=LineKind.STEP,
        phase="train",
    ),
    ProgramLine(
        program="darknet",
        sample="<step=100>: <loss=12.345678>, <avg_loss=23.456789> avg?{ loss}?, <rate=0.001000> rate, "
        "<*:3.456789 seconds, 6400 images>",
        kind=LineKind.STEP,
        phase="train",
    ),
    ProgramLine(
        program="LIBSVM",
        sample="Accuracy = <accuracy[%]=86.66>% (234/270) (classification)",
        kind=LineKind.OBJECT,
    ),
    ProgramLine(
        program="sacreBLEU",
        sample="BLEU = <bleu=27.31> 60.1/33.2/21.0/13.9 (BP = 1.000 ratio = 1.012 hyp_len = 64210 ref_len = 63450)",
        kind=LineKind.BELOW,
    ),
    ProgramLine(
        program="Optuna",
        sample="Trial <step=2> finished with value: <value=0.8223> and parameters: <*:{'lr': 0.002}. Best is trial 2 with "
        "value: 0.8223.>",
        kind=LineKind.STEP,
        phase="train",
    ),
    ProgramLine(
        program="TensorFlow.js",
        sample="<epoch_time[s]=12345ms> <step_time[s]=123us>/step - [[<name:acc>=<{name}=0.812>|| ]]",
        kind=LineKind.REDRAWN,
        words=_NAME,
    ),
    ProgramLine(
        program="XLM",
        sample="?{2:02:04 - }?<step=3550> - <sent/s[sent/s]=6.84> sent/s - <words/s[words/s]=267.24> words/s"
        "[[ - <name:MLM-en>: <{name}=7.5730>]] - - model LR: <lr=1.0000e-04>",
        kind=LineKind.STEP,
        phase="train",
        words={"name": r"[A-Z][\w-]{1,40}"},
    ),
    ProgramLine(
        program="XLM",
        sample="?{2:02:04 - }?<step=10> - <sent/s[sent/s]=0.01> sent/s - <words/s[words/s]=0.25> words/s - "
        "[[<name:AE-en>: <{name}=11.2054>|| || ]] - <*:Transformer> LR = <lr=1.0990e-06>",
        kind=LineKind.STEP,
        phase="train",
        words={"name": r"[A-Z][\w-]{1,40}", "*": r"\w{1,40}"},
    ),
    ProgramLine(
        program="YOLACT",
        sample="[ <epoch=0>] <step=10> ||[[ <name:B>: <{name}=5.123> |]]| ETA: <*:1:02:03> || timer: 0.512",
        kind=LineKind.STEP,
        phase="train",
        words={"name": "[A-Z]"},
    ),
    ProgramLine(
        program="NGCF, LightGCN",
        sample="Epoch <epoch=9> [60.2s?{ + 86.3s}?]: train==[<loss=40.85046>=39.90646 + 0.94400?{ + 0.00000}?]"
        "?{, recall=[<recall=0.12405>, <*:0.26871>], precision=[<precision=0.03890>, <*:0.01713>], "
        "hit=[<hit=0.47357>, <*:0.70631>], ndcg=[<ndcg=0.10771>, <*:0.15002>]}?",
        kind=LineKind.STEP,
        phase="train",
    ),
    ProgramLine(
        program="LightGCN for PyTorch",
        sample="EPOCH[<epoch=1>/1000] loss<loss=0.572>-<*:|Sample:1.23|>",
        kind=LineKind.STEP,
        phase="train",
    ),
    ProgramLine(
        program="ChainerRL, PFRL",
        sample="outdir:<*:results/1> step:<step=5012> episode:41 R:<return=-123.12>",
        kind=LineKind.STEP,
        phase="train",
    ),
    ProgramLine(
        program="ChainerRL, PFRL",
        sample="statistics:<edge:[>[[('<name:average_q>', <{name}=-1.2123>)||, ]]<edge:]>",
        kind=LineKind.LOOSE,
        phase="train",
        words={"name": r"[A-Za-z_]\w{0,80}", "edge": r"[\[\]]"},
    ),
    ProgramLine(
        program="TFLearn",
        sample="| <*:Adam> | epoch: 001 |[[ <sign:> <name:loss>: <{name}=2.03040>]] -- iter: 00512/55000",
        kind=LineKind.LOOSE,
        words={"name": r"[A-Za-z_]\w{0,80}", "sign": r"-?\|?", "*": r"\w{1,40}"},
    ),
    ProgramLine(
        program="pix2pix-tensorflow",
        sample="progress  epoch <epoch=1>  step <step=50>  image/sec 12.1  remaining 112m",
        kind=LineKind.HEADING,
    ),
    ProgramLine(
        program="conlleval",
        sample="accuracy:  <accuracy[%]=98.12>%; precision:  <precision[%]=90.00>%; recall:  <recall[%]=87.89>%; "
        "FB1:  <f1=88.93>",
        kind=LineKind.BELOW,
        phase="val",
    ),
    ProgramLine(
        program="DeepSpeed 0.3",
        sample="0/<step=10>, [[<name:SamplesPerSec>=<{name}=1.8825>||, ]]",
        kind=LineKind.STEP,
        phase="train",
        words={"name": r"\w{0,20}SamplesPerSec"},
    ),
    ProgramLine(
        program="L-BFGS-B",
        sample="At iterate <step=50>    f=  <f=3.12345e-01>    |proj g|=  <projected_gradient=1.21234e-02>",
        kind=LineKind.STEP,
        phase="train",
    ),
    ProgramLine(
        program="Keras examples",
        sample="Episode * <step=1> * Avg Reward is ==> <avg_reward=-1512.345>",
        kind=LineKind.STEP,
        phase="train",
    ),
    ProgramLine(
        program="OpenRLHF",
        sample="(PolicyModelActor pid=4411) Train epoch [1/1]: <*:50%|#####     | 4/8 [00:01, kl=0.001]>",
        kind=None,
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ProgramPrefix:
    """What only one program prints before lines that the grammar reads: an expression for it, and a line."""

    program: str
    sample: str
    expression: bytes


PROGRAM_PREFIXES = (
    ProgramPrefix(
        program="DLLogger",
        sample="DLL 2020-11-09 09:33:02.123456 - Epoch: <epoch=0> Iteration: <step=10>  loss : <loss=6.9> None",
        expression=rb"DLLL?(?= \d{4}-)",
    ),
    ProgramPrefix(
        program="AReaL",
        sample="(AReaL) 20250501-10:11:12.123 stats INFO: step <step=7>: loss=<loss=0.5>",
        expression=rb"\([A-Za-z][\w.-]*\)(?=[ ]\d{8}-\d\d:)",
    ),
    ProgramPrefix(
        program="CenterNet",
        sample="ctdet/coco |train: [<epoch=1>][<step=10>/<total=7330>]|loss <loss=2.5000> |",
        expression=rb"[\w./-]+ ?\| ?(?=(?:train|val|test): \[\d)",
    ),
    ProgramPrefix(
        program="VAR",
        sample="(utils/misc.py        , line 312)=> step <step=7>  Lm: <lm=8.317> (8.317)  loss: <loss=0.5>",
        expression=rb"\([\w./ ]{1,80}, line \d+\)=>",
    ),
    ProgramPrefix(
        program="Kaldi",
        sample="LOG (nnet3-train[5.5]:main():nnet3-train.cc:123) step <step=7>: loss=<loss=0.5>",
        expression=rb"(?:LOG|WARNING|VLOG\[\d+\]) \([^\s()]+(?:\(\))?[^\s()]*:\d+\)(?=[ ])",
    ),
    ProgramPrefix(
        program="MindFormers",
        sample="worker[mindformers/core/callback.py:123] INFO step <step=7>: loss=<loss=0.5>",
        expression=rb"[\w.-]+\[[\w./-]+\.py:\d+\]",
    ),
    ProgramPrefix(
        program="SkyPilot",
        sample="(worker1, rank=<rank=1>, pid=3412, ip=10.0.0.2) step <step=7>: loss=<loss=0.5>",
        expression=rb"\([\w.-]+, rank=(?P<rank>\d{1,6}), pid=\d+(?:, ip=[\w.:-]+)?\)",
    ),
    ProgramPrefix(
        program="SkyPilot",
        sample="(train, pid=3412) step <step=7>: loss=<loss=0.5>",
        expression=rb"\([\w.-]+, pid=\d+(?:, ip=[\w.:-]+)?\)",
    ),
    ProgramPrefix(
        program="TorchX",
        sample="trainer/0 [<rank=1>]:step <step=7>: loss=<loss=0.5>",
        expression=rb"[a-z][\w-]*/\d{1,6} \[(?P<rank>\d{1,6})\]:",
    ),
    ProgramPrefix(
        program="Metaflow",
        sample="2024-03-02 10:11:22.123 [1709/train/2 (pid 3412)] epoch <epoch=7>: loss=<loss=0.5>",
        expression=rb"\[[\w./-]{1,80} \(pid \d+\)\]",
    ),
    ProgramPrefix(
        program="Prefect",
        sample="10:11:22.123 | INFO    | Task run 'train-0' - Epoch <epoch=7>: loss=<loss=0.5>",
        expression=rb"(?:Task|Flow) run '[^'\n]{1,80}'",
    ),
    ProgramPrefix(
        program="Coach",
        sample="Training> Name=main/agent, Worker=<rank=0>, Episode=<step=1>, Total reward=<total_reward=12.1>",
        expression=rb"Training>(?= Name=)",
    ),
    ProgramPrefix(
        program="stern",
        sample="trainer-0 pytorch 2024-03-02T10:11:12.123456789Z step <step=7>: loss=<loss=0.5>",
        expression=rb"[a-z0-9][a-z0-9.-]{0,80} [a-z0-9-]{1,63}(?= \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z )",
    ),
    ProgramPrefix(
        program="docker service logs",
        sample="train.1.x8k2p1abc@gpu01    | step <step=7>: loss=<loss=0.5>",
        expression=rb"[a-z][\w-]*\.\d+\.\w+@[\w.-]+ +\|(?= )",
    ),
)


class Layout(Enum):
    """How the rows of a table are read."""

    COLUMNS = "a number for each column"
    PAIRS = "a name and its number"
    PHASES = "a name, and a number for each phase"
    COPIED = "names, then numbers, behind a mark"


@dataclass(frozen=True, kw_only=True)
class ProgramTable:
    """A table that only one program prints, with the reader of its rows.

    `header` is an expression for the names of its columns, with bars between them; `mark` precedes each copied
    row. `phase` is the phase of its numbers. A table with a `row_name` has the position of the line above and
    only rows of this name, one with a `label` only rows whose label starts with it and names a phase.
    `steps` are columns with the step, under names that no other program has. `names` are the metrics of columns,
    by their names in lower case; an empty one leaves the column out. `is_of_words`: single blanks separate cells, too.
    """

    program: str
    sample: str
    header: str = ""
    mark: str = ""
    layout: Layout = Layout.COLUMNS
    phase: str | None = None
    row_name: str = ""
    label: str = ""
    steps: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    is_of_words: bool = False


PROGRAM_TABLES = (
    ProgramTable(
        program="YOLO",
        sample="Epoch   gpu_mem  labels  img_size\n  <epoch=0>/299     <gpu_mem=3.73>G     35       640",
        header=r"(?i:epoch\|gpu_mem)\|.*",
    ),
    ProgramTable(
        program="YOLO",
        sample="Class     Images     Labels          P          R     mAP@.5\n"
        "  all        128        929      <p=0.601>      <r=0.542>      <map=0.690>",
        header=r"Class\|Images\|.*",
        phase="val",
        row_name="all",
    ),
    ProgramTable(
        program="YOLO",
        sample="classes   top1_acc   top5_acc\n  all      <top1_acc=0.41>      <top5_acc=0.61>",
        header=r"classes\|top1_acc\|top5_acc.*",
        phase="val",
        row_name="all",
    ),
    ProgramTable(
        program="fastai",
        sample="epoch     train_loss  valid_loss  accuracy  time\n"
        "<epoch=0>         <train_loss=0.646314>    <valid_loss=0.509850>    <accuracy=0.766505>  00:01",
        header=r"epoch\|train_loss\|valid_loss\|(?:.*\|)?time",
        phase="val",
    ),
    ProgramTable(
        program="DI-engine",
        sample="| Name  | train_iter | avg_reward |\n+-------+------------+------------+\n"
        "| Value | <step=100>.000000 | <avg_reward=12.345678>  |",
        header=r"Name\|train_iter\|.*",
        row_name="Value",
        steps=("train_iter",),
    ),
    ProgramTable(
        program="H2O",
        sample="             timestamp    duration  number_of_trees  training_rmse\n"
        "0  2026-01-01 10:00:00   0.010 sec              <step=4>.0       <rmse=0.5123>",
        header=r"timestamp\|duration\|number_of_trees\|.*",
        steps=("number_of_trees",),
    ),
    ProgramTable(
        program="ML.NET",
        sample="|     Trainer                MicroAccuracy  MacroAccuracy  Duration #Iteration  |\n"
        "|0    LightGbmMulti                 <microaccuracy=0.9615>         <macroaccuracy=0.9636>       1.0          <step=1>  |",
        header=r"Trainer\|(?:MicroAccuracy|Accuracy|RSquared)\|.*\|#Iteration",
        phase="val",
        steps=("#iteration",),
        names={"duration": ""},
        is_of_words=True,
    ),
    ProgramTable(
        program="Vowpal Wabbit",
        sample="average  since         example        example        current        current  current\n"
        "loss     last          counter         weight          label        predict features\n"
        "<loss=0.693147> <loss_since_last=0.346574>            <step=2>            2.0         1.0000         0.0000        8",
        header=r"loss\|last\|counter\|.*",
        steps=("counter",),
        names={"last": "loss_since_last", "weight": "", "label": "", "predict": "", "features": ""},
        is_of_words=True,
    ),
    ProgramTable(
        program="AllenNLP",
        sample="         Training |  Validation\nloss   |     <loss=0.611>  |     <val_loss=0.531>",
        header=r"Training\|Validation",
        layout=Layout.PHASES,
    ),
    ProgramTable(
        program="Lightning",
        sample="Validate metric   DataLoader 0\n--------------------\nval_loss    <val_loss=0.125>",
        header=r"(?:Validate|Validation|Test) metric\|[^|]*",
        layout=Layout.PAIRS,
    ),
    ProgramTable(
        program="NequIP",
        sample="  Train      #    Epoch      wal       LR       loss_f\n"
        "! Validation          <epoch=1>   12.345    <lr=0.005>        <loss_f=0.881>",
        header=r"(?:Train|Validation|Initialization)\|#\|Epoch\|.*",
        label="! ",
    ),
    ProgramTable(
        program="Detectron2",
        sample="copypaste: Task: bbox\ncopypaste: AP,AP50\ncopypaste: <ap=41.2345>,<ap50=62.1234>",
        mark="copypaste: ",
        layout=Layout.COPIED,
    ),
)


@dataclass(frozen=True, kw_only=True)
class ProgramFact:
    """A line that tells facts of a run: texts that are parameters, by their names.

    `<name:…>` and `<value:…>` are one parameter, `<json:…>` holds them. A line has one of the `literals`.
    `has_fixed_width`: its numbers have so many decimals that other lines may touch it. `is_aligned`: it begins
    with its literal, padded as in no other text, so that a line may stand in front of it without a newline.
    """

    program: str
    sample: str
    literals: tuple[bytes, ...]
    words: Mapping[str, str] = field(default_factory=dict)
    has_fixed_width: bool = False
    is_aligned: bool = False


_ANY_VALUE = r"\S[^\n]{0,4000}?"


def _aligned(label: str, value: str, expression: str = "", *, behind: str = "") -> ProgramFact:
    """A line of the header of tf_cnn_benchmarks, which pads its labels; a text may be appended to a number."""
    padded, key = f"{label:12}" + " " * bool(label), value.partition(":")[0]
    return ProgramFact(
        program="tf_cnn_benchmarks",
        sample=f"{padded}<{value}>{behind}" + "?{ <*:1587077440>}?" * bool(expression),
        literals=((padded if label else behind).encode(),),
        words={key: f"(?<={padded})(?:{expression or _ANY_VALUE})"},
        is_aligned=True,
    )


_COUNTED = r"(?<=\S )\d{1,18}"  # behind one blank, as other programs align theirs
_FLAG = "True|False"
_BATCH = r"\d{1,18}(?:\.\d+)?|None"
PROGRAM_FACTS = (
    _aligned("TensorFlow:", "tensorflow:1.12", r"\d+\.\d+"),
    _aligned("Model:", "model:resnet50"),
    _aligned("Dataset:", "dataset:imagenet (synthetic)"),
    _aligned("Mode:", "mode:training"),
    _aligned("SingleSess:", "single_sess:False", _FLAG),
    _aligned("Batch size:", "batch_size_global:128", _BATCH, behind=" global"),
    _aligned("", "batch_size_per_device:32", _BATCH, behind=" per device"),
    _aligned("", "batch_group_size:2", r"\d+", behind=" batches per prepocessing group"),
    _aligned("Num batches:", "num_batches:100", r"\d{1,18}"),
    _aligned("Num epochs:", "num_epochs:0.01", r"\d+\.\d\d"),
    _aligned("Devices:", "devices:['horovod/gpu:0']"),
    _aligned("NUMA bind:", "numa_bind:False", _FLAG),
    _aligned("Data format:", "data_format:NCHW"),
    _aligned("Data type:", "data_type:float16"),
    _aligned("Layout optimizer:", "layout_optimizer:False", _FLAG),
    _aligned("RewriterConfig:", "rewriter_config:auto_parallel {"),
    _aligned("Optimizer:", "optimizer:sgd"),
    _aligned("Variables:", "variables:horovod"),
    _aligned("Use NCCL:", "use_nccl:True", _FLAG),
    _aligned("AllReduce:", "all_reduce:nccl"),
    _aligned("Sync:", "sync:True", _FLAG),
    _aligned("Staged vars:", "staged_vars:False", _FLAG),
    _aligned("Horovod on:", "horovod_on:gpu"),
    ProgramFact(
        program="tf_cnn_benchmarks",
        sample="<columns:Step\tImg/sec\ttotal_loss>",
        literals=(b"Img/sec",),
        words={"columns": r"Step[ \t]+Img/sec[ \t]+\S[^\n]{0,80}"},
    ),
    ProgramFact(
        program="tf_cnn_benchmarks",
        sample="total images/sec: <total_images_per_sec:1740.38>",
        literals=(b"total images/sec: ",),
        words={
            "total_images_per_sec": r"(?<![A-Za-z]total images/sec: )\d+\.\d\d(?!\d(?!\d*[ \t]+images/sec: |\d{3}-\d\d-))"
        },
        has_fixed_width=True,
    ),
    ProgramFact(
        program="Horovod",
        sample="Model: <model:ResNet50>",
        literals=(b"Model: ",),
        words={"model": r"(?<=\S )[A-Za-z][\w.-]{0,80}"},
    ),
    ProgramFact(
        program="Horovod",
        sample="Batch size: <batch_size:32>",
        literals=(b"Batch size: ",),
        words={"batch_size": _COUNTED},
    ),
    ProgramFact(
        program="Horovod",
        sample="Number of <*:GPU>s: <device_count:8>",
        literals=(b"Number of GPUs: ", b"Number of CPUs: ", b"Number of TPUs: "),
        words=_DEVICE | {"device_count": _COUNTED},
    ),
    ProgramFact(
        program="Horovod",
        sample="Total img/sec on 8 <*:GPU>(s): <total_images_per_sec:811.3> +-18.6",
        literals=(b"Total img/sec on ",),
        words=_DEVICE | {"total_images_per_sec": r"\d+\.\d"},
    ),
    ProgramFact(
        program="DLLogger",
        sample='DLLL <json:{"type": "LOG", "step": "PARAMETER", "data": {"model": "bert"}}>',
        literals=(b'"PARAMETER"',),
        words={"json": r'\{.*"step": ?"PARAMETER".*\}'},
    ),
    ProgramFact(
        program="DLLogger",
        sample="PARAMETER <name:batch_size_per_gpu> : <value:64>",
        literals=(b"PARAMETER ",),
        words={"name": r"\w{1,80}", "value": r"\S{1,80}"},
    ),
)
