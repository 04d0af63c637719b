"""The feed-forward network is equation 2, at each position by itself."""

import math

import numpy as np
import pytest

from keras_transformer.layers.feed_forward import FeedForward

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32)
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_it_is_two_maps_with_biases_and_an_activation_between(activation):
    layer = FeedForward(12, activation)
    layer.build(X.shape)
    values = np.random.default_rng(1)  # Keras starts biases at zero, which would hide them
    layer.set_weights([values.normal(size=weight.shape) for weight in layer.weights])
    w1, b1 = (weight.numpy() for weight in (layer.inner.kernel, layer.inner.bias))
    w2, b2 = (weight.numpy() for weight in (layer.outer.kernel, layer.outer.bias))
    assert w1.shape == (8, 12) and w2.shape == (12, 8)
    expected = ACTIVATIONS[activation](X @ w1 + b1) @ w2 + b2
    np.testing.assert_allclose(layer(X), expected, atol=1e-4)


def test_positions_do_not_see_each_other():
    layer = FeedForward(12)
    changed = X.copy()
    changed[:, 1] += 1.0
    different = np.abs(layer(X) - layer(changed)).max(axis=(0, 2)) > 0
    np.testing.assert_array_equal(different, [False, True, False])


def test_dropout_works_between_the_maps_and_in_training_only():
    layer = FeedForward(12, dropout=0.5)
    plain = layer(X)
    layer.outer.set_weights([np.eye(12, 8), np.zeros(8)])  # shows the inner activations
    inner = layer(X).numpy()
    np.testing.assert_array_equal(layer(X, training=False), inner)
    dropped = layer(X, training=True).numpy()
    assert np.all((dropped == 0) | np.isclose(dropped, 2 * inner, rtol=1e-3))
    assert 0.2 < (dropped[inner > 0] == 0).mean() < 0.8
    assert np.abs(plain - inner).max() > 0


def test_a_width_below_one_is_an_error():
    with pytest.raises(ValueError, match="`d_ff` should be at least 1. Received: d_ff=0"):
        FeedForward(0)
