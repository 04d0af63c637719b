"""Dropout drops the share it should, keeps the expectation, and repeats itself only by seed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.dropout import Dropout

ONES = np.ones((64, 513), np.float32)  # an odd number of elements: the last half word is cut


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_rate_is_right_and_the_kept_are_scaled_to_the_same_expectation(rate):
    y = Dropout(rate, seed=1)(ONES, training=True).numpy()
    kept = y[y != 0]
    deviation = np.sqrt(rate * (1 - rate) / ONES.size)
    assert abs((y == 0).mean() - rate) < 4 * deviation
    np.testing.assert_allclose(kept, 1 / (1 - rate), rtol=2e-4)  # the rate is exact to 2^-16
    assert abs(y.mean() - 1) < 4 * deviation / (1 - rate)


def test_elements_are_dropped_independently():
    y = Dropout(0.5, seed=1)(ONES, training=True).numpy() != 0
    for axis in (0, 1):
        spread = y.mean(axis=axis).std() / np.sqrt(0.25 / y.shape[axis])
        assert 0.8 < spread < 1.25
    neighbours = (y[:, 1:] == y[:, :-1]).mean()  # the two halves of one 32-bit word included
    assert abs(neighbours - 0.5) < 4 * np.sqrt(0.25 / ONES.size)


def test_every_call_and_every_layer_drops_other_elements():
    first, second = Dropout(0.5), Dropout(0.5)
    masks = [layer(ONES, training=True).numpy() for layer in (first, first, second, second)]
    for i in range(4):
        for j in range(i):
            assert abs((masks[i] == masks[j]).mean() - 0.5) < 0.02


def test_the_seed_decides():
    def twice(layer):
        return np.stack([layer(ONES, training=True) for _ in range(2)])

    np.testing.assert_array_equal(twice(Dropout(0.5, seed=3)), twice(Dropout(0.5, seed=3)))
    assert (twice(Dropout(0.5, seed=3)) != twice(Dropout(0.5, seed=4))).any()

    def by_global_seed(seed):
        keras.utils.set_random_seed(seed)
        return twice(Dropout(0.5))

    np.testing.assert_array_equal(by_global_seed(5), by_global_seed(5))
    assert (by_global_seed(5) != by_global_seed(6)).any()


def test_a_graph_draws_anew_at_every_call():
    layer = Dropout(0.5)
    drop = tf.function(lambda x: layer(x, training=True))
    assert abs((drop(ONES) == drop(ONES)).numpy().mean() - 0.5) < 0.02


def test_nothing_is_dropped_unless_training_or_at_rate_0():
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    np.testing.assert_array_equal(Dropout(0.9)(x), x)
    np.testing.assert_array_equal(Dropout(0.9)(x, training=False), x)
    np.testing.assert_array_equal(Dropout(0.0)(x, training=True), x)
    assert not Dropout(0.0).variables


def test_the_gradient_passes_where_the_value_passed():
    x = tf.constant(ONES)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = Dropout(0.3)(x, training=True)
    np.testing.assert_array_equal(tape.gradient(y, x), y)


def test_dtype_and_shape_stay(policy):
    layer = Dropout(0.25, dtype=policy)
    y = layer(tf.ones((3, 1, 5), layer.compute_dtype), training=True)
    assert y.dtype == layer.compute_dtype and y.shape == (3, 1, 5)
    np.testing.assert_allclose(np.unique(tf.cast(y, tf.float32)), [0, 4 / 3], rtol=4e-3)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 10])
def test_a_rate_out_of_range_is_an_error(rate):
    with pytest.raises(ValueError, match=f"`rate` should be .*Received: rate={rate}"):
        Dropout(rate)
