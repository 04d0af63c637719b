"""Attention is equation 1, head by head, in every dtype; who may attend to nothing gets zeros."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.attention import MultiHeadAttention, scaled_dot_product_attention


def attention_by_loops(queries, keys, values, mask):
    """Equation 1, one query at a time over the keys it may see, in float64."""
    batch, heads, length, d_k = queries.shape
    mask = np.broadcast_to(mask, (batch, heads, length, keys.shape[2]))
    output = np.zeros((batch, heads, length, values.shape[-1]))
    for place in np.ndindex(batch, heads, length):
        seen = np.flatnonzero(mask[place])
        if not len(seen):
            continue
        scores = keys[place[:2]][seen].astype(np.float64) @ queries[place] / np.sqrt(d_k)
        weights = np.exp(scores - scores.max())
        output[place] = (weights / weights.sum()) @ values[place[:2]][seen]
    return output


def heads_by_slices(layer, query, value, mask):
    """Section 3.2.2 from the layer's matrices: a slice of columns for each head."""
    q, k, v, o = (
        part.kernel.numpy()
        for part in (layer.query, layer.key, layer.value, layer.output_projection)
    )
    total = 0.0
    for h in range(layer.num_heads):
        wide, narrow = (slice(h * d, (h + 1) * d) for d in (layer.d_k, layer.d_v))
        head = attention_by_loops(
            (query @ q[:, wide])[:, None],
            (value @ k[:, wide])[:, None],
            (value @ v[:, narrow])[:, None],
            mask[:, h : h + 1] if mask.shape[1] > 1 else mask,
        )
        total = total + head[:, 0] @ o[narrow]
    return total


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def random_mask(*shape):
    return np.random.default_rng(5).random(shape) < 0.6


def test_scaled_dot_product_attention_is_equation_1():
    q, k, v = random(2, 3, 4, 5), random(2, 3, 6, 5, seed=1), random(2, 3, 6, 7, seed=2)
    output, weights = scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(output, attention_by_loops(q, k, v, True), atol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), np.ones((2, 3, 4)), atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (2, 1, 1, 6), (1, 1, 4, 6)])
def test_a_mask_of_any_broadcastable_shape_selects_the_keys(shape):
    q, k, v = random(2, 3, 4, 5), random(2, 3, 6, 5, seed=1), random(2, 3, 6, 7, seed=2)
    mask = random_mask(*shape)
    assert 0 < mask.mean() < 1
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    np.testing.assert_allclose(output, attention_by_loops(q, k, v, mask), atol=1e-5)
    hidden = ~np.broadcast_to(mask, weights.shape)
    assert not weights.numpy()[hidden].any()


@pytest.mark.parametrize(("d_k", "d_v"), [(3, 5), (4, 4)])
@pytest.mark.parametrize("to_itself", [False, True])
def test_multi_head_attention_is_its_heads_side_by_side(d_k, d_v, to_itself):
    layer = MultiHeadAttention(num_heads=2, d_k=d_k, d_v=d_v)
    x = random(2, 6, 8)
    memory = x if to_itself else random(2, 5, 8, seed=1)
    layer.build(x.shape, memory.shape)
    length, tensor = memory.shape[1], tf.constant(x)
    other = tensor if to_itself else tf.constant(memory)
    attend = lambda mask: layer(tensor, other, mask)
    for mask in (random_mask(2, 2, 6, length), random_mask(2, 1, 1, length)):
        expected = heads_by_slices(layer, x, memory, mask)
        np.testing.assert_allclose(attend(mask), expected, atol=1e-5)


def test_attention_has_four_matrices_and_no_bias():
    layer = MultiHeadAttention(num_heads=2, d_k=3, d_v=5)
    layer(random(1, 4, 8), random(1, 6, 8))
    shapes = sorted(tuple(weight.shape) for weight in layer.weights)
    assert shapes == sorted([(8, 6), (8, 6), (8, 10), (10, 8)])


def test_weights_are_returned_on_request_of_eager_and_symbolic_input():
    layer = MultiHeadAttention(num_heads=2, d_k=3, d_v=5)
    x, memory = keras.Input((4, 8)), keras.Input((6, 8))
    model = keras.Model([x, memory], layer(x, memory, return_weights=True))
    assert [tuple(t.shape) for t in model.outputs] == [(None, 4, 8), (None, 2, 4, 6)]
    arrays = random(2, 4, 8), random(2, 6, 8, seed=1)
    output, weights = layer(*arrays, return_weights=True)
    assert weights.shape == (2, 2, 4, 6)
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), np.ones((2, 2, 4)), atol=1e-6)
    for found, expected in zip(model(arrays), (output, weights), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_query_that_may_attend_to_nothing_yields_zeros_and_finite_gradients(policy):
    layer = MultiHeadAttention(num_heads=2, d_k=3, d_v=5, dtype=policy)
    mask = np.ones((2, 1, 4, 6), bool)
    mask[0, :, 2] = False
    mask[1] = False
    x, memory = tf.constant(random(2, 4, 8)), tf.constant(random(2, 6, 8, seed=1))
    with tf.GradientTape() as tape:
        tape.watch([x, memory])
        output = layer(x, memory, mask)
        total = tf.reduce_sum(tf.cast(output, tf.float32) ** 2)
    assert output.dtype == layer.compute_dtype
    output = tf.cast(output, tf.float32).numpy()
    assert not output[0, 2].any() and not output[1].any()
    assert np.abs(output[0, [0, 1, 3]]).max(axis=-1).min() > 0
    variables = [weight.value for weight in layer.trainable_weights]
    gradients = tape.gradient(total, [x, memory, *variables])
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert not gradients[0][1].numpy().any() and not gradients[1][1].numpy().any()
    assert gradients[0][0].numpy().any() and gradients[1][0].numpy().any()


def test_what_is_hidden_gets_no_gradient_and_has_no_influence():
    layer = MultiHeadAttention(num_heads=2, d_k=3, d_v=5)
    mask = np.array([True, True, False, True, False, True])[None, None, None]
    x, memory = random(2, 4, 8), random(2, 6, 8, seed=1)
    watched = tf.constant(memory)
    with tf.GradientTape() as tape:
        tape.watch(watched)
        output = layer(x, watched, mask)
    gradient = np.abs(tape.gradient(output, watched)).max(axis=(0, 2))
    np.testing.assert_array_equal(gradient > 0, mask[0, 0, 0])
    memory[:, ~mask[0, 0, 0]] = 1e4
    np.testing.assert_array_equal(layer(x, memory, mask), output)


def test_softmax_is_in_float32_under_half_precision():
    """Scores 30 apart, and 64 equal scores whose float16 sum would be rounded."""
    q = tf.constant(np.full((1, 1, 1, 1), 1.0), tf.float16)
    k = tf.constant(np.linspace(-15, 15, 64).reshape(1, 1, 64, 1), tf.float16)
    output, weights = scaled_dot_product_attention(q, k, k)
    exact = np.exp(k.numpy().astype(np.float64).ravel())
    assert weights.dtype == tf.float32 and output.dtype == tf.float16
    np.testing.assert_allclose(weights.numpy().ravel(), exact / exact.sum(), rtol=1e-5)


def test_projected_keys_and_values_give_what_the_call_gives():
    layer = MultiHeadAttention(num_heads=2, d_k=3, d_v=5)
    x, memory, mask = random(2, 4, 8), random(2, 6, 8, seed=1), random_mask(2, 1, 1, 6)
    expected = layer(x, memory, mask)
    keys, values = layer.project(memory)
    assert keys.shape == (2, 2, 6, 3) and values.shape == (2, 2, 6, 5)
    np.testing.assert_array_equal(layer.attend(x, keys, values, mask)[0], expected)


def test_dropout_works_on_the_weights_in_training_only():
    layer = MultiHeadAttention(num_heads=2, d_k=3, d_v=5, dropout=0.5)
    x = random(2, 4, 8)
    plain, weights = layer(x, x, return_weights=True)
    np.testing.assert_array_equal(layer(x, x), plain)
    dropped, reported = layer(x, x, training=True, return_weights=True)
    assert np.abs(dropped - plain).max() > 1e-3
    np.testing.assert_array_equal(reported, weights)


@pytest.mark.parametrize("name", ["num_heads", "d_k", "d_v"])
def test_a_size_below_one_is_an_error_that_names_it(name):
    sizes = {"num_heads": 2, "d_k": 3, "d_v": 5, name: 0}
    with pytest.raises(ValueError, match=f"`{name}` should be at least 1. Received: {name}=0"):
        MultiHeadAttention(**sizes)
