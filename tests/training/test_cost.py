"""The counted operations are those of the graph; the expected memory is what a run takes."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.data.batching import Bucket
from keras_transformer.model import build_transformer
from keras_transformer.training.cost import batch_flops, training_flops
from keras_transformer.training.loss import smoothed_cross_entropy


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(vocab_size=50, num_layers=2, d_model=16, d_ff=24, num_heads=2),
        TransformerConfig(
            vocab_size=50,
            target_vocab_size=60,
            tie_embeddings="none",
            num_layers=1,
            num_decoder_layers=2,
            d_model=12,
            d_ff=20,
            num_heads=3,
            d_k=2,
            d_v=5,
            norm="pre",
        ),
    ],
)
def test_the_products_of_the_training_graph_are_counted_one_by_one(config):
    rows, source_length, target_length = 3, 7, 5
    model = build_transformer(config)
    weights = [weight.value for weight in model.trainable_weights]

    def gradients(source, target):
        with tf.GradientTape() as tape:
            logits = model([source, target], training=True)
            loss = tf.reduce_sum(smoothed_cross_entropy(target, logits, 0.1))
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]

    shapes = [tf.TensorSpec((rows, n), tf.int32) for n in (source_length, target_length)]
    graph = tf.function(gradients, autograph=False).get_concrete_function(*shapes).graph
    counted = 0
    for op in graph.get_operations():
        if op.type in ("MatMul", "BatchMatMulV2"):
            transposed = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
            inner = op.inputs[0].shape[-2 if transposed else -1]
            counted += 2 * int(np.prod(op.outputs[0].shape)) * inner
    bucket = Bucket(rows, source_length, target_length)
    assert batch_flops(config, bucket) == rows * training_flops(config, 7, 5) == counted


_MEASURE = """
import re
import numpy as np
import tensorflow as tf
from keras_transformer.config import TransformerConfig
from keras_transformer.model import build_transformer
from keras_transformer.training.cost import training_memory
from keras_transformer.training.optimizer import paper_optimizer
from keras_transformer.training.step import TrainStep
def peak():  # not ru_maxrss, which a process takes over from the one that started it
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])

config = TransformerConfig(vocab_size=8000, num_layers=2, d_model=256, d_ff=1024, num_heads=4)
model = build_transformer(config)
step = TrainStep(model, paper_optimizer(256), 0.1, tf.distribute.get_strategy())
small = np.full((3, 1, 2), 5, np.int32)
step(*small)
before = peak()
static = 4 * 4 * model.count_params()
rows, length = 128, 40
for _ in range(2):
    step(*np.full((3, rows, length), 5, np.int32))
after = peak()
print(training_memory(config, model.count_params(), rows, length, length) - static, after - before)
"""


@pytest.mark.slow
def test_the_memory_expected_of_a_batch_is_what_it_takes_roughly():
    result = subprocess.run([sys.executable, "-c", _MEASURE], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    expected, taken = map(float, result.stdout.split()[-2:])
    assert 1 / 2.5 < expected / taken < 2.5, (expected, taken)  # 509 to 936 MB were taken
