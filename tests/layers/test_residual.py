"""The connection is LayerNorm(x + Dropout(f(x))), or x + Dropout(f(LayerNorm(x)))."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.residual import Residual

X = np.random.default_rng(0).normal(loc=2.0, scale=3.0, size=(2, 3, 8)).astype(np.float32)
GAMMA, BETA = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)


def layer_norm(x, epsilon):
    """Over the last axis, with the biased variance, in float64."""
    x = x.astype(np.float64)
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * GAMMA + BETA


def make(norm, **kwargs):
    layer = Residual(norm, **kwargs)
    layer.build(X.shape)
    layer.layer_norm.set_weights([GAMMA, BETA])
    return layer


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
def test_post_norm_is_the_papers(epsilon):
    found = make("post", epsilon=epsilon)(X, sublayer=lambda x: 0.5 * x**2)
    np.testing.assert_allclose(found, layer_norm(X + 0.5 * X**2, epsilon), atol=2e-4)


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
def test_pre_norm_leaves_x_on_the_way(epsilon):
    found = make("pre", epsilon=epsilon)(X, sublayer=lambda x: 0.5 * x**2)
    np.testing.assert_allclose(found, X + 0.5 * layer_norm(X, epsilon) ** 2, atol=2e-4)


def test_dropout_falls_on_the_sublayers_output_alone():
    y = make("pre", dropout=0.5)(X, sublayer=tf.ones_like, training=True)
    added = np.round(y - X, 3)
    assert set(np.unique(added)) == {0.0, 2.0}
    y = make("pre", dropout=0.5)(X, sublayer=tf.ones_like)
    np.testing.assert_allclose(y, X + 1, rtol=1e-6)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_symbolic_input_goes_through_the_sublayer_too(norm):
    layer = make(norm)
    x = keras.Input((None, 8))
    model = keras.Model(x, layer(x, sublayer=lambda x: 0.5 * x))
    assert tuple(model.output.shape) == (None, None, 8)
    np.testing.assert_allclose(model(X), layer(X, sublayer=lambda x: 0.5 * x), atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_statistics_are_in_float32_in_every_policy(norm, policy):
    """The sum of squares of these is beyond float16, and their spread beyond bfloat16's digits."""
    layer = Residual(norm, dtype=policy)
    x = tf.cast(np.linspace(1000.0, 1064.0, 9)[None, None], layer.compute_dtype)
    y = layer(x, sublayer=lambda x: 0.0 * x if norm == "post" else x)
    assert y.dtype == layer.compute_dtype
    exact = tf.cast(x, tf.float32).numpy()
    normed = (exact - exact.mean()) / exact.std()
    tolerance = {"float32": 1e-4, "mixed_float16": 1e-2, "mixed_bfloat16": 3e-2}[policy]
    if norm == "post":
        np.testing.assert_allclose(tf.cast(y, tf.float32), normed, atol=tolerance)
    assert np.isfinite(tf.cast(y, tf.float32)).all()


def test_an_unknown_norm_is_an_error():
    with pytest.raises(ValueError, match="`norm` should be 'post' or 'pre'.*norm='sandwich'"):
        Residual("sandwich")
