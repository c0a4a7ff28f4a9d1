"""Lines that look like metrics and are none, as programs and launchers print them."""

NEAR_MISSES = """\
Total images/sec: 1134.505
INFO:__main__:2:  Total images/sec: 1134.505
images/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000
+ python train.py --epochs=10 --steps=100 --lr=0.1
python train.py --step=100 --loss=0.25
OMP_NUM_THREADS=4 KMP_BLOCKTIME=1
Namespace(batch_size=64, epochs=14, lr=1.0, step=3)
seed=42 world_size=4 rank=0
step=3
epoch=1
epoch=1 of 10
loss=0.25 accuracy=0.9
step=abc loss=0.25
step=1 loss=
step=1 loss=0.25 and so on
saving checkpoint step=100 loss=0.25
Loaded checkpoint: step 100 loss 0.25
Best model: epoch 3 loss 0.25
New best: epoch 3, loss 0.25
Restored V2 step 100, loss 0.25
python3 step=100 loss=0.25
We saw step 100 loss 0.25
SFT step 100 loss 0.25 was the best of them
GPT2 step 100 loss 3
https://example.org/run?epoch=1&step=2
step=1.5 loss=0.25
{"step": 100}
{"step": 100, "loss": "low"}
{"step": 100, "loss": null, "ok": true}
{"step": 100, "loss": 0.25
{"step": 100, "loss": 0.25}}
{"step": true, "loss": 0.25}
{"steps": 100, "loss": 0.25}
{"step": -1, "loss": 0.25}
{"step": 1.5, "loss": 0.25}
[{"step": 100, "loss": 0.25}]
"step": 100, "loss": 0.25
config: {"step": 100, "loss": 0.25}
DLLL {"timestamp": "1570716916.14", "type": "METADATA", "step": [], "data": {"loss": 1.0}}
DLLL {"timestamp": "1570716916.14", "type": "LOG", "step": "PARAMETER", "data": {"lr": 0.1}}
DLL 2020-11-09 09:33:02.123456 - PARAMETER learning_rate : 0.1
:::MLPv0.5.0 resnet 1541026345.123 (resnet_run_loop.py:101) run_stop: {"success": true}
:::MLPv0.5.0 resnet 1541026345.123 (resnet_run_loop.py:101) run_start
:::MLPv0.5.0 resnet 1541026345.123 (resnet_run_loop.py:101) run_set_random_seed: "none"
:::MLL {"namespace": "", "time_ms": 1592000000000, "key": "run_start", "value": null}
Ignoring MLPerf logging item key=eval_accuracy, value=0.1 for model resnet50
Iter #3: 101.2 img/sec
Iter #3: 101 img/sec per GPU
Iter 3: 101.2 img/sec per GPU
Img/sec per GPU: 101.4 +- 2.3
Total img/sec on GPUs: 811.3 +-18.6
Running benchmark...
Number of GPUs: 8
Model: ResNet50
Batch size: 32
Test set: Average loss: 0.0563
Train Epoch: 1 [640/60000 (1%)]
Epoch: [0][10/5005]
Epoch: [0] Total time: 0:01:02
Epoch: 3
Epoch 00001: val_loss improved from inf to 0.95000, saving model to best.h5
48/48 [==============================]
48/48 [==============================] - 1s 5ms/step
48/48 tests - loss: 3
  - loss: 0.9490
total - loss: 0.5
git log - loss: 0.5 - accuracy: 0.3
Test loss:
Test loss: low
mAP: 0.45 after 3 epochs
614 instances of class person
* Acc@1 high Acc@5 89.078
  10%|█         | 1/10 [00:01<00:09,  1.20it/s]
100%|██████████| 170M/170M [00:03<00:00, 50.1MB/s]
Minibatch[1-100]: no terms;
Minibatch error: high
Finished Epoch[1 of 10]: [Training]
Finished Epoch[1 of 10]
Learning rate per minibatch: 0.01
Iteration 100
Iteration 100, Testing net
Iteration 100, loss = high
Solving LeNet, loss = 0.5
Train net output
    Test net output #0: accuracy
Finished iteration 1/31 of epoch 0
Finished iteration 1/31 of epoch 0 (4.34 images/sec) in all
Training loss: 6.90421
epoch       main/loss
main/loss   validation/main/loss
1           0.190652    0.0925411
INFO:tensorflow:Saving checkpoints for 0 into /tmp/model.ckpt.
INFO:tensorflow:Loss for final step: 0.5.
INFO:tensorflow:loss = high, step = 0
W0701 23:55:42.762805 1398 file.py:125] loss = 1.0
global_step/sec: fast
1549883160.123456: Worker 0: training step 15
Training elapsed time: long
Step 8100 (epoch 9.43)
Minibatch loss: 1.652
INFO:root:Epoch[0] Time cost=9.8
INFO:root:Epoch[0] Batch [20] Speed: fast samples/sec
INFO:root:Start training with [gpu(0)]
host:20:24 [0] NCCL INFO Ring 00 : 0 -> 1 step=0
2018-06-12 10:00:00.000001: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1312] Adding epoch=1 step=2
""".splitlines()

PRINTED = """\
Step 1/5 : FROM python:3.10
Step 3/12 : EXPOSE 8080
Step 7 : CMD python train.py --lr 0.1
step 1: version: 3
step 2: seed: 42
step 3: error: 404
Step 2: Python 3.10
Step 4: pip install torch==1.13.1
step 3 of 7: copying files
step 10 at 12:30:01
step 5 took 3.2 s
step 5: done
step 5: loss
step 5: loss =
step 5 loss is 0.5
step 5: loss = 0.5 is too high
step 5: loss = 0.5 and so on
step 5: loss = 0.5.1
step 5: loss = 0x1f
step 1.5: loss = 0.5
step -1: loss = 0.5
step: loss = 0.5
steps 5: loss = 0.5
first step 5: loss = 0.5
one step 5: loss 0.5
Starting real work at step 10 at time Thu Jun 14 15:27:35 2018
Restored from step 1000: loss = 2.0
Saved at step 1000: loss 2.0
Epoch 1 of 3
Epoch 1: 100% done
Epoch 3: reducing learning rate of group 0 to 1.0000e-03.
Epoch 00005: ReduceLROnPlateau reducing learning rate to 0.001.
Epoch 2: val_loss did not improve from 0.95
Epoch 1: early stopping, best loss: 0.3
Epoch 0, global step 100: 'val_loss' reached 0.5 (best 0.5)
Epoch 1: loss: nan, stopping
Epoch 3: saved 16 images
Epoch 3: wrote model-3.pt
Epoch 3 0.5 0.7
Epoch 12: 0.5
epoch 3, batch 5
Epoch 1: best accuracy 0.93 at epoch 2
Epoch 1 started: Thu Jun 14 15:27:35 2018
Epoch 5: /data/run-5.ckpt loss=0.5
iteration 3 failed: error 5
iter 5: x
Iteration 5: http://host:8080
Batch 10: queue size 5
batch 10 of 20: worker 3, port 8080
Episode 10 finished after 200 timesteps
[1,  2000] loss: low
[1,  2000] loss: 2.218 falling
[1, 2]: loss 0.5
loss: 2.303  [64]
loss: 2.3
loss: 2.3 [1/2]
{'loss': 0.5}
{'epoch': 1.0}
{'loss': 'low', 'epoch': 1.0}
{'loss': 0.5, 'epoch': 1.0} written
{'params': {'loss': 1}, 'epoch': 1}
ValueError: step 5: loss = nan
  File "train.py", line 5, in step 3
""".splitlines()
"""Behind the place where a print is: what is glued to such a line may be taken for its number."""
