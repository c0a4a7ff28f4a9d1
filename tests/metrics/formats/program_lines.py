# ruff: noqa: E501 - lines as programs print them
"""Lines of programs by their kinds, the numbers on them, and their epoch and step."""

LINES = {
    "JSON line": (
        '{"epoch": 1, "step": 100, "loss": 0.25, "lr": 0.001}',
        {"loss": 0.25, "lr": 0.001},
        (1, 100),
    ),
    "DLLogger JSON": (
        'DLLL {"timestamp": "1570716916.14", "elapsedtime": "12.3", "datetime": "2019-10-10 14:15:16.14", "type": "LOG", "step": [0, 10], "data": {"train.loss": 6.9, "train.ips": 2871.1}}',
        {"train.loss": 6.9, "train.ips": 2871.1},
        (0, 10),
    ),
    "MLPerf": (
        ':::MLPv0.5.0 resnet 1541026345.123456 (resnet_run_loop.py:101) eval_accuracy: {"epoch": 1, "value": 0.107}',
        {"eval_accuracy": 0.107},
        (1, None),
    ),
    "DLLogger": (
        "DLL 2020-11-09 09:33:02.123456 - Epoch: 0 Iteration: 10  train.loss : 6.9 None  train.ips : 2871.1 images/s",
        {"train.loss": 6.9, "train.ips": 2871.1},
        (0, 10),
    ),
    "Horovod benchmark iteration": (
        "Iter #3: 101.2 img/sec per GPU",
        {"images_per_sec_per_device": 101.2},
        (None, 3),
    ),
    "Horovod benchmark mean": (
        "Img/sec per GPU: 101.4 +-2.3",
        {"mean_images_per_sec_per_device": 101.4, "spread_images_per_sec_per_device": 2.3},
        (None, None),
    ),
    "Horovod benchmark total": (
        "Total img/sec on 8 GPU(s): 811.3 +-18.6",
        {"spread_total_images_per_sec": 18.6, "devices": 8},
        (None, None),
    ),
    "Horovod TensorFlow 2 mnist": (
        "Step #130\tLoss: 0.412031",
        {"loss": 0.412031},
        (None, 130),
    ),
    "Horovod PyTorch mnist test": (
        "Test set: Average loss: 0.0563, Accuracy: 98.21%",
        {"test_loss": 0.0563, "test_accuracy": 98.21},
        (None, None),
    ),
    "Keras 2 bar": (
        "48/48 [==============================] - 1s 5ms/step - loss: 0.9490 - accuracy: 0.4954",
        {"step_time": 0.005, "epoch_time": 1, "loss": 0.949, "accuracy": 0.4954},
        (None, 48),
    ),
    "Keras 3 bar": (
        "\x1b[1m48/48\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m0s\x1b[0m 714us/step - accuracy: 0.5026 - loss: 0.7255",
        {"step_time": 0.000714, "epoch_time": 0, "accuracy": 0.5026, "loss": 0.7255},
        (None, 48),
    ),
    "Keras line an epoch": (
        "48/48 - 1s - loss: 0.7414 - accuracy: 0.4967 - val_loss: 0.7244 - 953ms/epoch - 20ms/step",
        {"epoch_time": 1, "step_time": 0.02, "loss": 0.7414, "accuracy": 0.4967, "val_loss": 0.7244},
        (None, 48),
    ),
    "Keras example test": (
        "Test accuracy: 0.9888",
        {"test_accuracy": 0.9888},
        (None, None),
    ),
    "keras-retinanet class": (
        "614 instances of class person with average precision: 0.5123",
        {"average_precision/person": 0.5123, "instances/person": 614},
        (None, None),
    ),
    "keras-retinanet mean": (
        "mAP: 0.4512",
        {"mean_average_precision": 0.4512},
        (None, None),
    ),
    "PyTorch mnist": (
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.310000",
        {"loss": 2.31},
        (1, 640),
    ),
    "PyTorch mnist test": (
        "Test set: Average loss: 0.0563, Accuracy: 9821/10000 (98%)",
        {"test_loss": 0.0563, "test_correct": 9821, "test_examples": 10000, "test_accuracy": 98},
        (None, None),
    ),
    "PyTorch ImageNet": (
        "Epoch: [0][  10/5005]\tTime  0.312 ( 0.411)\tData  0.001 ( 0.105)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.39 (  0.21)\tAcc@5   1.17 (  0.92)",
        {"step_time": 0.312, "data_time": 0.001, "loss": 6.9, "top_1": 0.39, "top_5": 1.17},
        (0, 10),
    ),
    "PyTorch ImageNet validation": (
        "Test: [ 10/196]\tTime  0.157 ( 0.489)\tLoss 1.2e+00 (1.1e+00)\tAcc@1  71.09 ( 72.05)\tAcc@5  89.45 ( 90.91)",
        {"val_step_time": 0.157, "val_loss": 1.2, "val_top_1": 71.09, "val_top_5": 89.45},
        (None, 10),
    ),
    "PyTorch ImageNet epoch": (
        " * Acc@1 69.758 Acc@5 89.078",
        {"val_top_1": 69.758, "val_top_5": 89.078},
        (None, None),
    ),
    "tf.estimator loss": (
        "INFO:tensorflow:loss = 7.02, step = 0 (12.3 sec)",
        {"loss": 7.02, "interval_time": 12.3},
        (None, 0),
    ),
    "tf.estimator speed": (
        "INFO:tensorflow:global_step/sec: 0.34",
        {"steps_per_sec": 0.34},
        (None, None),
    ),
    "tf.estimator examples": (
        "INFO:tensorflow:examples/sec: 245.673",
        {"samples_per_sec": 245.673},
        (None, None),
    ),
    "tf.estimator evaluation": (
        "INFO:tensorflow:Saving dict for global step 100: accuracy = 0.9013, global_step = 100, loss = 0.3125",
        {"val_accuracy": 0.9013, "val_loss": 0.3125},
        (None, 100),
    ),
    "slim step": (
        "INFO:tensorflow:global step 5: loss = 62.5012 (20.243 sec/step)",
        {"loss": 62.5012, "step_time": 20.243},
        (None, 5),
    ),
    "mnist_replica step": (
        "1549883160.123456: Worker 0: training step 15 done (global step: 29)",
        {"local_step": 15},
        (None, 29),
    ),
    "mnist_replica time": (
        "Training elapsed time: 12.345678 s",
        {"training_time": 12.345678},
        (None, None),
    ),
    "mnist_replica validation": (
        "After 200 training step(s), validation cross entropy = 1234.56",
        {"val_cross_entropy": 1234.56},
        (None, 200),
    ),
    "convolutional.py step": (
        "Step 8100 (epoch 9.43), 8.4 ms",
        {"step_time": 0.0084},
        (None, 8100),
    ),
    "convolutional.py loss": (
        "Minibatch loss: 1.652, learning rate: 0.006302",
        {"loss": 1.652, "learning_rate": 0.006302},
        (None, None),
    ),
    "convolutional.py error": (
        "Validation error: 1.0%",
        {"val_error": 1},
        (None, None),
    ),
    "CNTK minibatch": (
        " Minibatch[   1- 100]: loss = 2.302585 * 6400, metric = 90.12% * 6400;",
        {"loss": 2.302585, "metric": 90.12},
        (None, 100),
    ),
    "CNTK epoch": (
        "Finished Epoch[1 of 10]: [Training] loss = 0.412031 * 60000, metric = 12.31% * 60000 12.345s (4860.3 samples/s);",
        {"loss": 0.412031, "metric": 12.31, "epoch_time": 12.345, "total_samples_per_sec": 4860.3},
        (1, None),
    ),
    "CNTK evaluation of minibatches": (
        "Evaluation Minibatch[1-100]: loss = 2.302585 * 6400, metric = 90.12% * 6400;",
        {"test_loss": 2.302585, "test_metric": 90.12},
        (None, 100),
    ),
    "CNTK evaluation": (
        "Finished Evaluation [1]: Minibatch[1-79]: metric = 2.31% * 10000;",
        {"test_metric": 2.31},
        (None, 79),
    ),
    "CNTK BrainScript minibatch": (
        "06/12/2018 10:00:00:  Epoch[ 1 of 3]-Minibatch[   1- 100, 10.67%]: CrossEntropyWithSoftmax = 1.20459251 * 6400; EvalClassificationError = 36.641% * 6400; time = 0.1234s; samplesPerSecond = 51863.9",
        {
            "CrossEntropyWithSoftmax": 1.20459251,
            "EvalClassificationError": 36.641,
            "minibatch_time": 0.1234,
            "total_samples_per_sec": 51863.9,
        },
        (1, 100),
    ),
    "CNTK BrainScript epoch": (
        "06/12/2018 10:00:09: Finished Epoch[ 1 of 3]: [Training] ce = 0.28911 * 60000; errs = 8.512% * 60000; totalSamplesSeen = 60000; learningRatePerSample = 0.003125; epochTime=1.23456s",
        {
            "ce": 0.28911,
            "errs": 8.512,
            "samples_seen": 60000,
            "learning_rate_per_sample": 0.003125,
            "epoch_time": 1.23456,
        },
        (1, None),
    ),
    "Caffe iteration": (
        "I0608 01:25:30.086784   551 solver.cpp:218] Iteration 100 (271.09 iter/s, 0.368881s/100 iters), loss = 0.224091",
        {"iterations_per_sec": 271.09, "loss": 0.224091},
        (None, 100),
    ),
    "Caffe learning rate": (
        "I0608 01:25:29.718049   551 sgd_solver.cpp:105] Iteration 0, lr = 0.01",
        {"learning_rate": 0.01},
        (None, 0),
    ),
    "Caffe net output": (
        "I0608 01:25:32.246443   551 solver.cpp:397]     Test net output #0: accuracy = 0.9913",
        {"test_accuracy": 0.9913},
        (None, None),
    ),
    "Caffe2 iteration": (
        "INFO:resnet50_trainer:Finished iteration 1/31 of epoch 0 (4.34 images/sec)",
        {"images_per_sec": 4.34},
        (0, 1),
    ),
    "Caffe2 loss": (
        "INFO:resnet50_trainer:Training loss: 6.90421, accuracy: 0.03125",
        {"loss": 6.90421, "accuracy": 0.03125},
        (None, None),
    ),
    "MXNet speed": (
        "INFO:root:Epoch[0] Batch [20]\tSpeed: 13681.57 samples/sec\taccuracy=0.001244",
        {"samples_per_sec": 13681.57, "accuracy": 0.001244},
        (0, 20),
    ),
    "MXNet epoch": (
        "INFO:root:Epoch[0] Validation-accuracy=0.953125",
        {"val_accuracy": 0.953125},
        (0, None),
    ),
}
HEADER_LINES = {
    "[batchai] attempt 2 begins on node2: Slurm took its nodes for another job": ("attempt", "2"),
    "DLL 2020-11-09 09:33:02.123456 - PARAMETER batch_size_per_gpu : 64": ("batch_size_per_device", "64"),
    "Model: ResNet50": ("model", "ResNet50"),
    "Batch size: 32": ("batch_size", "32"),
    "Number of GPUs: 8": ("device_count", "8"),
}
BENCHMARK_LINES = (
    "110\timages/sec: 2296.2 +/- 3.4 (jitter = 12.5)\t7.916",
    "20\t412.7 examples/sec",
    "Accuracy @ 1 = 0.1234 Accuracy @ 5 = 0.5678 [50000 examples]",
    "Precision @ 1 = 0.1234 recall @ 5 = 0.5678 [50000 examples]",
)
KNOWN_LINES = (
    *(line for line, _, _ in LINES.values()),
    *HEADER_LINES,
    *BENCHMARK_LINES,
    "Epoch 1/12",
    "Log file created at: 2018/06/08 01:25:29",
    "I0608 01:25:32.113092   551 solver.cpp:330] Iteration 500, Testing net (#0)",
)
"""A line of each kind."""
