"""What whole logs of each program give, as its terminals and launchers show them."""

from batchai_magics.metrics import Fact, Measurement, Parser
from batchai_magics.metrics.measurement import lines_of
from tests.metrics.log_text import measurements, step_lines

BAR = "[==============================]"


def read(text, rank=None):
    parser = Parser()
    return parser.feed(text.encode(), rank) + parser.finish()


def told(text, *names):
    """Epoch, step and value of the records with these names."""
    return [(r.epoch, r.step, r.value) for r in read(text) if isinstance(r, Measurement) and r.name in names]


class TestKeras:
    def test_a_number_that_is_drawn_again_is_told_once(self):
        text = (
            f"Epoch 1/2\n48/48 {BAR} - ETA: 0s - loss: 0.9490\r"
            f"48/48 {BAR} - 1s 5ms/step - loss: 0.9490 - val_loss: 0.8000\n"
        )
        assert told(text, "loss", "val_loss") == [(1, 48, 0.949), (1, 48, 0.8)]

    def test_the_same_number_in_the_next_epoch_is_told(self):
        text = "".join(f"Epoch {n}/2\n48/48 {BAR} - 1s 5ms/step - loss: 0.9490\n" for n in (1, 2))
        assert told(text, "loss") == [(1, 48, 0.949), (2, 48, 0.949)]

    def test_the_first_line_an_epoch_has_no_count_in_keras_2(self):
        assert told("Epoch 3/12\n - 8s - loss: 0.0200 - acc: 0.9900\n", "acc") == [(3, None, 0.99)]

    def test_an_unknown_number_of_batches_is_no_hindrance(self):
        text = f"Epoch 1/2\n     10/Unknown {BAR} - ETA: 0s - loss: 0.5000\r\n"
        assert told(text, "loss") == [(1, 10, 0.5)]

    def test_a_second_run_begins_at_its_first_epoch(self):
        run = "".join(f"Epoch {n}/2\n48/48 - 1s - loss: 0.{n}\n" for n in (1, 2))
        assert [epoch for epoch, _, _ in told(run + run, "loss")] == [1, 2, 1, 2]


class TestChainer:
    HEADER = "epoch       iteration   main/loss   validation/main/loss\n"

    def test_rows_below_the_header_are_read_through_the_progress_bar(self):
        bar = "\x1b[J     total [####......] 20.00%\nthis epoch [####......] 0.00%\n    600 iter, 1 epoch\n"
        text = f"\x1b[J{self.HEADER}\x1b[4A\x1b[J1           600         0.19        0.09\n{bar}"
        text += "\x1b[4A\x1b[J2           1200        0.08        0.07\n"
        assert told(text, "main/loss") == [(1, 600, 0.19), (2, 1200, 0.08)]

    def test_a_blank_cell_is_no_number(self):
        text = f"{self.HEADER}1           100                     0.09                  \n"
        assert told(text, "main/loss", "val_main/loss") == [(1, 100, 0.09)]

    def test_a_long_number_moves_the_others(self):
        text = f"{self.HEADER}1           100         -1.23457e-05  0.09\n"
        assert told(text, "val_main/loss") == [(1, 100, 0.09)]

    def test_words_are_no_row(self):
        assert read(f"{self.HEADER}1           100         good        best\n") == []

    def test_numbers_long_after_the_table_are_no_row(self):
        noise = "saving a snapshot\n" * 300
        assert read(f"{self.HEADER}{noise}1           600         0.19        0.09\n") == []

    def test_step_lines_after_the_table_are_read(self):
        step = "110\timages/sec: 2296.2 +/- 3.4 (jitter = 12.5)\t7.916\n"
        assert len(step_lines(read(self.HEADER + step * 300))) == 300


class TestCaffe:
    def test_outputs_belong_to_the_last_iteration(self):
        lines = [
            "Iteration 500, Testing net (#0)",
            "    Test net output #0: accuracy = 0.9713",
            "    Test net output #1: loss = 0.08 (* 1 = 0.08 loss)",
            "Iteration 500 (271.09 iter/s, 0.36s/100 iters), loss = 0.1",
            "    Train net output #0: loss = 0.1 (* 1 = 0.1 loss)",
            "Iteration 500, lr = 0.0096",
        ]
        text = "".join(f"I0608 01:25:30.086784   551 solver.cpp:218] {line}\n" for line in lines)
        assert {(r.name, r.step) for r in read(text)} == {
            (name, 500)
            for name in (
                "test_accuracy", "test_loss", "iterations_per_sec", "loss", "train_loss", "learning_rate",
            )
        }  # fmt: skip

    def test_caffe2s_loss_belongs_to_the_iteration_before(self):
        text = "INFO:resnet50_trainer:Finished iteration 3/31 of epoch 2 (4.34 images/sec)\n"
        text += "INFO:resnet50_trainer:Training loss: 6.9, accuracy: 0.03\n"
        assert told(text, "loss") == [(2, 3, 6.9)]


class TestMlperf:
    LINE = ':::MLPv0.5.0 resnet 1541026345.12 (run.py:101) eval_accuracy: {"epoch": 1, "value": 0.107}'

    def test_a_line_in_both_streams_is_one_record(self):
        text = f"{self.LINE}\nI1121 00:00:01.000000 140 mlperf_log.py:136] {self.LINE}\n"
        assert told(text, "eval_accuracy") == [(1, None, 0.107)]

    def test_another_value_of_the_epoch_is_another_record(self):
        assert len(read(f"{self.LINE}\n{self.LINE.replace('0.107', '0.108')}\n")) == 2


class TestJson:
    def test_json_wins_over_the_patterns_of_formats(self):
        text = '{"step": 10, "loss": 0.5, "text": "110\timages/sec: 1.0 +/- 3.4 (jitter = 12.5)\\t7.916"}\n'
        assert [type(r) for r in read(text.replace("\t", " "))] == [Measurement]

    def test_json_wins_over_the_users_pattern_of_the_same_name(self):
        parser = Parser({"loss": r'"loss": ([\d.]+)', "raw": r'"loss": ([\d.]+)'})
        records = parser.feed(b'{"step": 10, "loss": 0.5}\n')
        assert [r.name for r in records] == ["loss", "raw"]

    def test_the_metric_log_of_tf_cnn_benchmarks_is_read(self):
        text = (
            '{"name": "top_1_accuracy", "value": 0.5, "unit": "fraction", "global_step": 7, "extras": []}\n'
        )
        (record,) = read(text)
        assert (record.name, record.value, record.unit, record.step) == ("top_1_accuracy", 0.5, "fraction", 7)

    def test_nested_metrics_are_read(self):
        assert told('{"step": 10, "metrics": {"loss": 0.5, "ok": true}}\n', "loss", "ok") == [(None, 10, 0.5)]

    def test_numbers_too_large_are_left_out(self):
        assert read('{"step": 1, "loss": ' + "9" * 400 + "}\n") == []
        assert read('{"step": ' + "9" * 400 + ', "loss": 1}\n') == []

    def test_a_deep_object_is_no_metric(self):
        assert read('{"step": 1, "x": ' + "[" * 8000 + "\n") == []
        assert read('{"step": 1, "x": ' + "[" * 8000 + "]" * 8000 + "}\n") == []


class TestOthers:
    def test_horovods_total_is_a_total(self):
        total, *_ = read("Total img/sec on 8 GPU(s): 811.3 +-18.6\n")
        assert total[:2] == Fact("total_images_per_sec", "811.3")[:2]

    def test_a_worker_prints_its_own_steps(self):
        lines = [
            "1549883160.500000: Worker 1: training step 1 done (global step: 11)",
            "1549883162.000000: Worker 0: training step 2 done (global step: 14)",
        ]
        records = read("".join(f"{line}\n" for line in lines))
        assert [(r.rank, r.step, r.value, r.wall_time) for r in records] == [
            (1, 11, 1, 1549883160.5),
            (0, 14, 2, 1549883162.0),
        ]

    def test_hogwilds_process_number_is_no_metric(self):
        text = "4711\tTrain Epoch: 1 [640/60000 (1%)]\tLoss: 2.310000\n"
        assert [(r.name, r.step) for r in measurements(read(text))] == [("loss", 640)]

    def test_cntks_seconds_may_differ_between_ranks(self):
        line = "Finished Epoch[1 of 10]: [Training] loss = 0.4 * 60 {}s (4860.3 samples/s);"
        text = "".join(f"[1,{rank}]<stdout>:{line.format(f'1{rank}.345')}\n" for rank in (0, 1))
        times = [r for r in read(text) if r.name == "epoch_time"]
        assert [(r.rank, r.value) for r in times] == [(0, 10.345), (1, 11.345)]

    def test_errors_of_convolutional_py_belong_to_the_step_before(self):
        text = "Step 8100 (epoch 9.43), 8.4 ms\nMinibatch loss: 1.652, learning rate: 0.006302\n"
        assert told(text + "Validation error: 1.0%\n", "loss", "val_error") == [
            (None, 8100, 1.652),
            (None, 8100, 1.0),
        ]

    def test_words_between_pairs_numbers_are_left_out(self):
        assert [r.name for r in read("epoch=1 phase=train loss=0.5 acc=93%\n")] == ["loss", "acc"]

    def test_one_log_may_have_several_programs(self):
        step = "110\timages/sec: 2296.2 +/- 3.4 (jitter = 12.5)\t7.916"
        text = f'{step}\nstep=1 loss=0.5\n{step}{step}\n{{"epoch": 2, "loss": 0.25}}\n{step}\n'
        lines = [line[0].name for line in lines_of(read(text))]
        speed = "images_per_sec"
        assert lines == [speed, "loss", speed, speed, "loss", speed]
