"""One table for tokens and logits: vectors times sqrt(d_model), logits float32 in every policy."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.embedding import OutputProjection, TokenEmbedding

IDS = np.array([[5, 7, 0], [7, 7, 10]], np.int32)


def test_vectors_are_rows_times_the_square_root_of_the_width():
    layer = TokenEmbedding(11, 16)
    found = layer(IDS)
    np.testing.assert_allclose(found, layer.table.numpy()[IDS] * 4.0, rtol=1e-6)


def test_logits_are_products_with_the_unscaled_rows():
    layer = TokenEmbedding(11, 16)
    layer(IDS)
    x = np.random.default_rng(0).normal(size=(2, 3, 16)).astype(np.float32)
    np.testing.assert_allclose(layer(x, reverse=True), x @ layer.table.numpy().T, atol=1e-5)
    assert len(layer.weights) == 1


def test_fresh_embeddings_and_logits_have_unit_variance():
    layer = TokenEmbedding(2000, 64)
    vectors = layer(np.arange(2000)[None])
    assert 0.97 < np.std(vectors) < 1.03
    x = np.random.default_rng(0).normal(size=(1, 50, 64)).astype(np.float32)
    assert 0.9 < np.std(layer(x, reverse=True)) < 1.1


def test_the_table_learns_from_both_its_uses():
    layer = TokenEmbedding(11, 4)
    layer.build(None)
    with tf.GradientTape() as tape:
        x = layer(IDS)
        total = tf.reduce_sum(layer(x, reverse=True))
    found = tf.convert_to_tensor(tape.gradient(total, layer.table.value)).numpy()
    table = layer.table.numpy()
    rows, sums = 2.0 * table[IDS.ravel()], table.sum(axis=0)
    expected = np.tile(rows.sum(axis=0), (11, 1))  # as output: every vector meets every row
    for token in IDS.ravel():  # as input: each occurrence meets the sum of all rows
        expected[token] += 2.0 * sums
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_logits_are_float32_and_use_the_float32_table(policy):
    embedding, projection = TokenEmbedding(11, 16, dtype=policy), OutputProjection(11, dtype=policy)
    x = embedding(IDS)
    assert x.dtype == embedding.compute_dtype
    exact = tf.cast(x, tf.float32).numpy()
    logits = embedding(x, reverse=True)
    assert logits.dtype == tf.float32
    np.testing.assert_allclose(logits, exact @ embedding.table.numpy().T, atol=1e-5)
    logits = projection(x)
    assert logits.dtype == tf.float32
    np.testing.assert_allclose(logits, exact @ projection.kernel.numpy(), atol=1e-5)


def test_sizes_below_one_are_errors():
    with pytest.raises(ValueError, match="`vocab_size` .*Received: vocab_size=0"):
        TokenEmbedding(0, 16)
    with pytest.raises(ValueError, match="`d_model` .*Received: d_model=-1"):
        TokenEmbedding(11, -1)
    with pytest.raises(ValueError, match="`vocab_size` .*Received: 0"):
        OutputProjection(0)
