"""The loss is that of a written-out target distribution, in value and gradient, per real token."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training.loss import (
    SmoothedCrossEntropy,
    both_cross_entropies,
    smoothed_cross_entropy,
    token_weights,
)

TARGETS = np.array([[4, 1, 3, 0, 0], [2, 6, 0, 0, 0], [0, 0, 0, 0, 0]], np.int32)
REAL = TARGETS != 0
LOGITS = np.random.default_rng(0).normal(scale=3.0, size=(3, 5, 7)).astype(np.float32)
SMOOTHING = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])


def distribution(targets, vocab_size, smoothing):
    """1 - smoothing for the right token, and the rest evenly for the others."""
    q = np.full((*targets.shape, vocab_size), smoothing / (vocab_size - 1))
    np.put_along_axis(q, targets[..., None], 1.0 - smoothing, axis=-1)
    return q


def dense_cross_entropy(targets, logits, smoothing):
    """-sum_k q_k log p_k over the whole vocabulary in float64."""
    logits = logits.astype(np.float64)
    logits = logits - logits.max(-1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -(distribution(targets, logits.shape[-1], smoothing) * log_p).sum(-1)


def value_and_gradient(function, logits):
    logits = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = function(logits)
    return value, tape.gradient(value, logits)


def test_real_tokens_weigh_one_and_padding_nothing():
    np.testing.assert_array_equal(token_weights(TARGETS), REAL.astype(np.float32))


@SMOOTHING
def test_each_real_token_has_the_cross_entropy_of_the_dense_distribution(smoothing):
    found = smoothed_cross_entropy(TARGETS, LOGITS, smoothing)
    assert found.dtype == tf.float32
    expected = dense_cross_entropy(TARGETS, LOGITS, smoothing) * REAL
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@SMOOTHING
def test_the_gradient_is_what_autodiff_gives_for_the_dense_distribution(smoothing):
    q = distribution(TARGETS, 7, smoothing).astype(np.float32)
    weights = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)  # any upstream
    _, found = value_and_gradient(
        lambda logits: smoothed_cross_entropy(TARGETS, logits, smoothing) * weights, LOGITS
    )
    _, expected = value_and_gradient(
        lambda logits: -tf.reduce_sum(q * tf.nn.log_softmax(logits), -1) * weights * REAL, LOGITS
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert not found.numpy()[~REAL].any()


def test_the_pair_is_the_loss_and_the_same_without_smoothing():
    smoothed, plain = both_cross_entropies(TARGETS, LOGITS, 0.1)
    np.testing.assert_array_equal(smoothed, smoothed_cross_entropy(TARGETS, LOGITS, 0.1))
    np.testing.assert_allclose(
        plain, dense_cross_entropy(TARGETS, LOGITS, 0.0) * REAL, rtol=1e-5, atol=1e-6
    )
    _, gradient = value_and_gradient(
        lambda logits: sum(both_cross_entropies(TARGETS, logits, 0.1)), LOGITS
    )
    _, expected = value_and_gradient(
        lambda logits: smoothed_cross_entropy(TARGETS, logits, 0.1), LOGITS
    )
    np.testing.assert_array_equal(gradient, expected)  # the second is for reporting alone


def test_the_least_loss_is_the_entropy_of_the_target_distribution():
    q = distribution(TARGETS, 7, 0.1)
    found = smoothed_cross_entropy(TARGETS, np.log(q).astype(np.float32), 0.1)
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1 / 6))
    np.testing.assert_allclose(found.numpy()[REAL], entropy, rtol=1e-5)


@SMOOTHING
def test_large_logits_give_finite_and_right_values_and_gradients(smoothing):
    logits = LOGITS * 1e4  # exp of any of these overflows
    found, gradient = value_and_gradient(
        lambda logits: smoothed_cross_entropy(TARGETS, logits, smoothing), logits
    )
    expected = dense_cross_entropy(TARGETS, logits, smoothing) * REAL
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.05)
    assert np.isfinite(gradient).all() and np.abs(gradient).max() <= 1.0
    for offset in (-1e4, 1e4):  # a shift of all logits changes nothing
        shifted = smoothed_cross_entropy(TARGETS, LOGITS + np.float32(offset), smoothing)
        expected = dense_cross_entropy(TARGETS, LOGITS, smoothing) * REAL
        np.testing.assert_allclose(shifted, expected, atol=0.02)


def test_a_large_vocabulary_loses_no_digits():
    logits = np.random.default_rng(2).normal(size=(1, 4, 37000)).astype(np.float32)
    targets = np.array([[36999, 1, 500, 7]], np.int32)
    found = smoothed_cross_entropy(targets, logits, 0.1)
    np.testing.assert_allclose(found, dense_cross_entropy(targets, logits, 0.1), rtol=1e-5)


def test_half_precision_logits_are_taken_as_float32():
    for dtype in (tf.float16, tf.bfloat16):
        logits = tf.cast(LOGITS, dtype)
        found, gradient = value_and_gradient(
            lambda logits: smoothed_cross_entropy(TARGETS, logits, 0.1), logits
        )
        expected = dense_cross_entropy(TARGETS, tf.cast(logits, tf.float32).numpy(), 0.1) * REAL
        assert found.dtype == tf.float32 and gradient.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_unknown_length_and_batch_do():
    spec = [tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((None, None, 7))]
    graph = tf.function(lambda t, x: smoothed_cross_entropy(t, x, 0.1), input_signature=spec)
    expected = smoothed_cross_entropy(TARGETS, LOGITS, 0.1)
    np.testing.assert_allclose(graph(TARGETS, LOGITS), expected, rtol=1e-6)
    assert graph(TARGETS[:0], LOGITS[:0]).shape == (0, 5)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_loss_is_the_mean_over_real_tokens(dtype):
    loss, gradient = value_and_gradient(
        lambda logits: SmoothedCrossEntropy(0.1)(TARGETS.astype(dtype), logits), LOGITS
    )
    expected = dense_cross_entropy(TARGETS, LOGITS, 0.1)[REAL].mean()
    assert loss.dtype == tf.float32 and loss.shape == ()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert not gradient.numpy()[~REAL].any() and gradient.numpy()[REAL].any()


def test_neither_padding_nor_what_is_predicted_there_changes_the_loss():
    loss = SmoothedCrossEntropy(0.1)
    expected = float(loss(TARGETS, LOGITS))
    changed = np.where(REAL[:, :, None], LOGITS, 1e4).astype(np.float32)
    np.testing.assert_allclose(loss(TARGETS, changed), expected, rtol=1e-6)
    targets = np.pad(TARGETS, ((0, 2), (0, 3)))
    logits = np.pad(LOGITS, ((0, 2), (0, 3), (0, 0)), constant_values=2.0)
    np.testing.assert_allclose(loss(targets, logits), expected, rtol=1e-6)


def test_no_real_token_gives_no_loss_and_a_zero_gradient():
    loss, gradient = value_and_gradient(
        lambda logits: SmoothedCrossEntropy(0.1)(np.zeros_like(TARGETS), logits), LOGITS
    )
    assert float(loss) == 0.0
    np.testing.assert_array_equal(gradient, np.zeros_like(LOGITS))


def test_sample_weights_weigh_each_tokens_loss_and_count():
    loss, each = SmoothedCrossEntropy(0.1), dense_cross_entropy(TARGETS, LOGITS, 0.1)
    rows = np.array([1.0, 3.0, 5.0])
    weights = REAL * rows[:, None]
    expected = (each * weights).sum() / weights.sum()
    np.testing.assert_allclose(loss(TARGETS, LOGITS, sample_weight=rows), expected, rtol=1e-5)
    tokens = np.random.default_rng(1).random((3, 5))
    expected = (each * REAL * tokens).sum() / (REAL * tokens).sum()
    np.testing.assert_allclose(loss(TARGETS, LOGITS, sample_weight=tokens), expected, rtol=1e-5)
    assert float(loss(TARGETS, LOGITS, sample_weight=0 * rows)) == 0.0


def test_the_loss_comes_back_from_its_config():
    loss = keras.losses.deserialize(keras.losses.serialize(SmoothedCrossEntropy(0.3, name="ls")))
    assert isinstance(loss, SmoothedCrossEntropy)
    assert loss.get_config() == {"name": "ls", "smoothing": 0.3}
    assert float(loss(TARGETS, LOGITS)) == float(SmoothedCrossEntropy(0.3)(TARGETS, LOGITS))


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_a_smoothing_out_of_range_is_an_error(smoothing):
    with pytest.raises(ValueError, match=f"`smoothing` should be .*Received: {smoothing}"):
        SmoothedCrossEntropy(smoothing)
