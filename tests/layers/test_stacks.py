"""Encoder and decoder are their sublayers in the paper's order, and see what they may only."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.decoder import Decoder, DecoderLayer
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.masks import AttentionMasks

SETTINGS = {"num_heads": 2, "d_k": 3, "d_v": 5, "d_ff": 12}
SOURCE = np.array([[5, 6, 7, 8, 3, 0], [8, 3, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[2, 9, 4, 6, 0], [2, 5, 0, 0, 0]], np.int32)
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X, MEMORY = random(2, 5, 8), random(2, 6, 8, seed=1)


def connect(norm, x, residual, sublayer):
    if norm == "post":
        return residual.layer_norm(x + sublayer(x))
    return x + sublayer(residual.layer_norm(x))


@NORMS
def test_an_encoder_layer_is_attention_then_feed_forward(norm):
    layer = EncoderLayer(**SETTINGS, norm=norm)
    mask = AttentionMasks()(SOURCE, TARGET)[0]
    found = layer(MEMORY, mask)
    x = connect(
        norm, MEMORY, layer.self_attention_residual, lambda x: layer.self_attention(x, x, mask)
    )
    x = connect(norm, x, layer.feed_forward_residual, layer.feed_forward)
    np.testing.assert_allclose(found, x, atol=1e-5)


@NORMS
def test_a_decoder_layer_attends_to_itself_then_to_the_memory_then_feeds_forward(norm):
    layer = DecoderLayer(**SETTINGS, norm=norm)
    _, self_mask, memory_mask = AttentionMasks()(SOURCE, TARGET)
    found = layer(X, MEMORY, self_mask, memory_mask)
    x = connect(
        norm, X, layer.self_attention_residual, lambda x: layer.self_attention(x, x, self_mask)
    )
    x = connect(
        norm,
        x,
        layer.memory_attention_residual,
        lambda x: layer.memory_attention(x, MEMORY, memory_mask),
    )
    x = connect(norm, x, layer.feed_forward_residual, layer.feed_forward)
    np.testing.assert_allclose(found, x, atol=1e-5)


@NORMS
def test_a_stack_is_its_layers_in_turn_and_a_last_norm_where_they_are_pre(norm):
    source_mask, self_mask, memory_mask = AttentionMasks()(SOURCE, TARGET)
    encoder = Encoder(3, {**SETTINGS, "norm": norm})
    decoder = Decoder(2, {**SETTINGS, "norm": norm})
    found = encoder(MEMORY, source_mask), decoder(X, MEMORY, self_mask, memory_mask)
    x, y = MEMORY, X
    for layer in encoder.blocks:
        x = layer(x, source_mask)
    for layer in decoder.blocks:
        y = layer(y, MEMORY, self_mask, memory_mask)
    if norm == "pre":
        x, y = encoder.final_norm(x), decoder.final_norm(y)
    np.testing.assert_allclose(found[0], x, atol=1e-5)
    np.testing.assert_allclose(found[1], y, atol=1e-5)
    assert (encoder.final_norm is None) == (decoder.final_norm is None) == (norm == "post")
    assert len(encoder.blocks) == 3 and len(decoder.blocks) == 2
    kernels = [block.feed_forward.inner.kernel.numpy() for block in encoder.blocks]
    assert np.abs(kernels[0] - kernels[1]).max() > 0.1  # no layer shares weights with another


def influence(function, x, outputs):
    """bool `[batch, out, in]`: whether input position `in` has a gradient at output `out`.

    Each row is there once for each of the `outputs`, so that one backward pass shows all.
    `function` maps the rows, and repeats its other arguments with the function it is given.
    """
    repeat = functools.partial(np.repeat, repeats=outputs, axis=0)
    copies = tf.constant(repeat(x))
    weights = random(8, seed=9)  # a plain sum of normalised vectors would have no gradient
    with tf.GradientTape() as tape:
        tape.watch(copies)
        y = tf.tensordot(function(copies, repeat), weights, 1)
        chosen = tf.reduce_sum(y * np.tile(np.eye(outputs, dtype=np.float32), (len(x), 1)))
    gradient = np.abs(tape.gradient(chosen, copies)).max(axis=-1) > 0
    return gradient.reshape(len(x), outputs, x.shape[1])


@pytest.mark.parametrize(
    ("norm", "window"), [("post", None), ("post", 1), ("post", 2), ("pre", None), ("pre", 5)]
)
def test_self_attention_sees_the_past_the_window_and_no_padding(norm, window):
    source_mask, self_mask, memory_mask = AttentionMasks(window)(SOURCE, TARGET)
    encoder = Encoder(1, {**SETTINGS, "norm": norm})
    decoder = Decoder(1, {**SETTINGS, "norm": norm})
    reach = 99 if window is None else window // 2
    seen = influence(lambda x, rep: encoder(x, rep(source_mask)), MEMORY, 6)
    for b, i, j in np.ndindex(*seen.shape):
        may = SOURCE[b, j] != 0 and abs(i - j) <= reach
        assert seen[b, i, j] == (may or i == j)  # its own vector by the residual connection
    seen = influence(lambda x, rep: decoder(x, rep(MEMORY), rep(self_mask), rep(memory_mask)), X, 5)
    for b, i, j in np.ndindex(*seen.shape):
        may = TARGET[b, j] != 0 and 0 <= i - j <= reach
        assert seen[b, i, j] == (may or i == j)
    seen = influence(lambda m, rep: decoder(rep(X), m, rep(self_mask), rep(memory_mask)), MEMORY, 5)
    for b, i, j in np.ndindex(*seen.shape):
        assert seen[b, i, j] == (SOURCE[b, j] != 0)


def test_no_depth_of_layers_lets_the_future_or_padding_through():
    source_mask, self_mask, memory_mask = AttentionMasks()(SOURCE, TARGET)
    decoder, encoder = Decoder(3, SETTINGS), Encoder(3, SETTINGS)
    seen = influence(lambda x, rep: decoder(x, rep(MEMORY), rep(self_mask), rep(memory_mask)), X, 5)
    for b, i, j in np.ndindex(*seen.shape):
        assert seen[b, i, j] == (j == i or (j < i and TARGET[b, j] != 0))
    seen = influence(lambda x, rep: encoder(x, rep(source_mask)), MEMORY, 6)
    for b, i, j in np.ndindex(*seen.shape):
        assert seen[b, i, j] == (j == i or SOURCE[b, j] != 0)


@NORMS
def test_rows_that_may_see_nothing_stay_finite_forward_and_backward(norm, policy):
    settings = {**SETTINGS, "norm": norm}
    encoder, decoder = Encoder(2, settings, dtype=policy), Decoder(2, settings, dtype=policy)
    source_mask, self_mask, memory_mask = AttentionMasks()(0 * SOURCE, 0 * TARGET)
    x, memory = tf.constant(X), tf.constant(MEMORY)
    with tf.GradientTape() as tape:
        tape.watch([x, memory])
        y = decoder(x, encoder(memory, source_mask), self_mask, memory_mask)
        total = tf.reduce_sum(tf.cast(y, tf.float32) * random(8, seed=9))
    assert y.dtype == decoder.compute_dtype
    assert np.isfinite(tf.cast(y, tf.float32)).all()
    weights = [w.value for w in encoder.trainable_weights + decoder.trainable_weights]
    for gradient in tape.gradient(total, [x, *weights]):
        assert gradient is None or np.isfinite(gradient).all()


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "relu_dropout"])
def test_each_dropout_works_in_both_stacks_and_in_training_only(rate):
    settings = {**SETTINGS, rate: 0.5}
    encoder, decoder = Encoder(1, settings), Decoder(1, settings)
    for run in (lambda **kw: encoder(MEMORY, **kw), lambda **kw: decoder(X, MEMORY, **kw)):
        plain = run()
        np.testing.assert_array_equal(run(training=False), plain)
        first, second = run(training=True), run(training=True)
        assert np.abs(first - plain).max() > 1e-3 and np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_a_stack_of_no_layers_is_an_error(stack):
    with pytest.raises(ValueError, match="`num_layers` should be at least 1. Received: 0"):
        stack(0, SETTINGS)
