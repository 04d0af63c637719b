"""One update: the loss is a sum over the real tokens of the whole batch, however it is split."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import PAD_ID, TransformerConfig
from keras_transformer.model import build_transformer
from keras_transformer.training.loss import smoothed_cross_entropy
from keras_transformer.training.optimizer import paper_optimizer
from keras_transformer.training.step import TrainStep

CONFIG = TransformerConfig(
    vocab_size=30, num_layers=1, d_model=16, d_ff=32, num_heads=2, dropout=0.0
)


def ragged_batch(rows=8, length=7, seed=0):
    generator = np.random.default_rng(seed)
    ids = generator.integers(4, 30, (3, rows, length)).astype(np.int32)
    for row in range(rows):
        ids[:, row, generator.integers(1, length + 1) :] = PAD_ID
    return ids


def make_step(strategy=None, jit_compile=False, seed=1, config=CONFIG):
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = build_transformer(config)
        optimizer = paper_optimizer(16, warmup_steps=10)
    generator = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(generator.normal(0, 0.3, variable.shape))
    return TrainStep(model, optimizer, 0.1, strategy, jit_compile)


def weights(step):
    return [variable.numpy() for variable in step.model.trainable_variables]


def test_loss_and_update_are_those_of_plain_tensorflow():
    step, arrays = make_step(), ragged_batch()
    source, target_in, target_out = arrays
    model = step.model
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        losses = smoothed_cross_entropy(target_out, model([source, target_in]), 0.1)
        mean = tf.reduce_sum(losses) / np.sum(target_out != PAD_ID)
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(mean, variables)]
    before, result = weights(step), step(*arrays)
    assert result.tokens == np.sum(target_out != PAD_ID)
    assert result.loss / result.tokens == pytest.approx(float(mean), rel=1e-6)
    # Adam's first update is rate * g / (|g| + eps'), of whatever sign the gradient has.
    rate = 16**-0.5 * 10**-1.5
    for old, new, gradient in zip(before, weights(step), gradients, strict=True):
        large = np.abs(gradient) > 1e-4
        np.testing.assert_allclose((old - new)[large], rate * np.sign(gradient[large]), rtol=1e-3)


def test_a_batch_without_a_token_changes_no_weight_and_stays_finite(eagerly):
    step, before = make_step(), None
    before = weights(step)
    result = step(*np.full((3, 4, 5), PAD_ID, np.int32))
    assert result == (0.0, 0.0, 0.0, 0.0, False)
    for old, new in zip(before, weights(step), strict=True):
        np.testing.assert_array_equal(old, new)


def test_rows_and_columns_of_padding_change_nothing(eagerly):
    arrays = ragged_batch()
    padded = np.pad(arrays, ((0, 0), (0, 3), (0, 2)))
    one, other = make_step(), make_step()
    for _ in range(3):  # the later losses see the updates of the earlier ones
        assert one(*arrays).loss == pytest.approx(other(*padded).loss, rel=1e-5)


def test_a_gradient_longer_than_the_limit_is_shortened_to_it_and_reported_as_it_was(eagerly):
    arrays, norm = ragged_batch(), None
    for limit in (None, 0.5, 1e9):
        model = build_transformer(CONFIG)
        for i, variable in enumerate(model.trainable_variables):
            variable.assign(np.random.default_rng(i).normal(0, 0.3, variable.shape))
        before = [variable.numpy() for variable in model.trainable_variables]
        strategy = tf.distribute.get_strategy()
        step = TrainStep(model, keras.optimizers.SGD(1.0), 0.1, strategy, clip_norm=limit)
        norm = norm or step(*arrays).gradient_norm
        if limit is None:
            continue
        assert step(*arrays).gradient_norm == pytest.approx(norm, rel=1e-5) and norm > 0.5
        moved = [old - new for old, new in zip(before, weights(step), strict=True)]
        length = np.sqrt(sum((part**2).sum() for part in moved))
        assert length == pytest.approx(min(limit, norm), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_a_model_of_half_precision_learns_with_weights_in_float32(policy, eagerly):
    arrays = ragged_batch()
    step = TrainStep(
        build_transformer(CONFIG, policy),
        paper_optimizer(16, warmup_steps=5),
        0.0,
        tf.distribute.get_strategy(),
    )
    losses = [step(*arrays).loss for _ in range(30)]
    assert losses[-1] < 0.7 * losses[0]
    assert all(weight.dtype == "float32" for weight in step.model.trainable_variables)
    assert (step.loss_scale is not None) == (policy == "mixed_float16")


@pytest.mark.slow
def test_a_float16_update_that_overflows_is_left_out_and_lowers_the_scale():
    arrays, strategy = ragged_batch(), tf.distribute.get_strategy()
    model = build_transformer(CONFIG, "mixed_float16")
    step = TrainStep(model, paper_optimizer(16, warmup_steps=5), 0.0, strategy)
    step.loss_scale.factor.assign(2.0**40)  # no gradient in float16 can be so large
    before, results = weights(step), []
    while not results or results[-1].skipped:
        for old, new in zip(before, weights(step), strict=True):
            np.testing.assert_array_equal(old, new)
        assert int(step.optimizer.iterations) == 0
        results.append(step(*arrays))
    assert len(results) > 3 and np.isfinite(results[-1].gradient_norm)
    assert int(step.optimizer.iterations) == 1
    assert float(step.loss_scale.factor) == 2.0 ** (40 - len(results) + 1)
    full = TrainStep(build_transformer(CONFIG), paper_optimizer(16, warmup_steps=5), 0.0, strategy)
    for weight, value in zip(full.model.trainable_variables, before, strict=True):
        weight.assign(value)
    assert results[-1].gradient_norm == pytest.approx(full(*arrays).gradient_norm, rel=0.02)


@pytest.mark.slow
def test_xla_gives_the_same_losses():
    plain, compiled = make_step(), make_step(jit_compile=True)
    for seed in range(3):
        arrays = ragged_batch(seed=seed)
        assert plain(*arrays).loss == pytest.approx(compiled(*arrays).loss, rel=1e-4)


def test_evaluation_changes_nothing_and_reports_loss_without_smoothing_too(eagerly):
    step, arrays = make_step(), ragged_batch()
    before = weights(step)
    result = step.evaluate(*arrays)
    logits = step.model([arrays[0], arrays[1]])
    assert result.nll == pytest.approx(
        float(tf.reduce_sum(smoothed_cross_entropy(arrays[2], logits))), rel=1e-6
    )
    assert result.loss > result.nll * 0.5 and result.loss != result.nll
    for old, new in zip(before, weights(step), strict=True):
        np.testing.assert_array_equal(old, new)


def test_all_bucket_shapes_are_served_by_one_trace():
    step = make_step()
    for rows, length in ((8, 7), (4, 9), (2, 3), (5, 5)):
        step(*ragged_batch(rows, length))
    assert step._update_all.experimental_get_tracing_count() == 1


_REPLICAS = """
import json, sys
import tensorflow as tf
sys.path.insert(0, sys.argv[1])
replicas = int(sys.argv[2])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
from keras_transformer.training.strategy import make_strategy
from test_step import CONFIG, make_step, ragged_batch, weights
strategy = make_strategy("mirrored")
assert strategy.num_replicas_in_sync == replicas
step = make_step(strategy)
losses = [step(*ragged_batch(seed=seed)).loss for seed in range(5)]
dropout = make_step(strategy, config=CONFIG.replace(dropout=0.5))
assert dropout(*ragged_batch()).loss != losses[0] and dropout(*ragged_batch()).loss > 0
losses.append(step(*ragged_batch(seed=9) * (tf.range(8)[:, None] < 4).numpy()).loss)
losses.append(step(*ragged_batch(rows=7)).loss)
variables = [variable.value for variable in step.model.weights] + [
    variable.value for variable in step.optimizer.variables[2:]
]
for variable in variables:
    copies = [copy.numpy() for copy in strategy.experimental_local_results(variable)]
    assert len(copies) == replicas and all((copy == copies[0]).all() for copy in copies)
print(json.dumps([losses, [float(abs(w).sum()) for w in weights(step)]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas_give_the_losses_of_one_device_one_with_no_token_included(replicas):
    step = make_step()
    losses = [step(*ragged_batch(seed=seed)).loss for seed in range(5)]
    # The last batch leaves the second half of the rows, so a replica, without any token.
    losses.append(step(*ragged_batch(seed=9) * (np.arange(8)[:, None] < 4)).loss)
    losses.append(step(*ragged_batch(rows=7)).loss)  # which no number of replicas divides
    command = [sys.executable, "-c", _REPLICAS, __file__.rsplit("/", 1)[0], str(replicas)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    found = json.loads(result.stdout.strip().splitlines()[-1])
    np.testing.assert_allclose(found[0], losses, rtol=1e-5)
    np.testing.assert_allclose(found[1], [np.abs(w).sum() for w in weights(step)], rtol=1e-4)
