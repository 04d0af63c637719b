"""Positions are the paper's sines and cosines, at any length, start and dtype."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.position import PositionalEncoding, sinusoids


def paper_table(length, d_model):
    """Section 3.5, one element at a time in float64."""
    table = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, 2 * i] = np.sin(angle)
            table[position, 2 * i + 1] = np.cos(angle)
    return table


def tensor2tensor_table(length, d_model):
    """get_timing_signal_1d: wavelengths from 2 pi to 10000 * 2 pi, sines before cosines."""
    half = d_model // 2
    rates = np.geomspace(1, 1e-4, half) if half > 1 else np.ones(1)
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


TABLES = {"interleaved": paper_table, "concatenated": tensor2tensor_table}
KINDS = pytest.mark.parametrize("kind", TABLES)


@KINDS
@pytest.mark.parametrize("d_model", [2, 4, 10, 64])
def test_sinusoids_are_those_of_the_formula(kind, d_model):
    found = sinusoids(np.arange(50), d_model, kind == "interleaved")
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, TABLES[kind](50, d_model), atol=1e-5)


@KINDS
def test_sinusoids_know_no_last_position(kind):
    found = sinusoids(np.arange(3000), 16, kind == "interleaved")
    np.testing.assert_allclose(found, TABLES[kind](3000, 16), atol=2e-3)


@KINDS
def test_the_layer_adds_them_from_any_start(kind):
    layer = PositionalEncoding(kind)
    x = np.random.default_rng(0).normal(size=(2, 7, 16)).astype(np.float32)
    table = TABLES[kind](30, 16)
    np.testing.assert_allclose(layer(x), x + table[:7], atol=1e-5)
    for start in (4, tf.constant(4)):
        np.testing.assert_allclose(layer(x, start=start), x + table[4:11], atol=1e-5)


@KINDS
def test_half_precision_rounds_the_sum_and_not_the_position(kind):
    """Computed in bfloat16, positions beyond 256 would fall together with their neighbours."""
    layer = PositionalEncoding(kind, dtype="mixed_bfloat16")
    found = layer(tf.zeros((1, 600, 16), tf.bfloat16))
    assert found.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(found[0], tf.float32), TABLES[kind](600, 16), atol=2**-8)


def test_a_learned_table_is_added_row_by_row_and_learns():
    layer = PositionalEncoding("learned", max_positions=9)
    x = np.zeros((2, 5, 8), np.float32)
    layer.build(x.shape)
    table = layer.table.numpy()
    assert table.shape == (9, 8) and 0.5 < table.std() * np.sqrt(8) < 1.5
    with tf.GradientTape() as tape:
        y = layer(x, start=3)
    np.testing.assert_array_equal(y, np.broadcast_to(table[3:8], (2, 5, 8)))
    gradient = tf.convert_to_tensor(tape.gradient(y, layer.table.value)).numpy()
    np.testing.assert_array_equal(gradient[:, 0], [0, 0, 0, 2, 2, 2, 2, 2, 0])


def test_a_sequence_longer_than_the_learned_table_is_an_error_that_names_the_limit():
    layer = PositionalEncoding("learned", max_positions=4)
    layer(tf.zeros((1, 4, 8)))
    for length, start in ((5, 0), (2, 3)):
        with pytest.raises(ValueError, match="of 5 tokens is longer .* max_positions=4"):
            layer(tf.zeros((1, length, 8)), start=start)


def test_a_graph_of_unknown_length_fails_when_it_runs_past_the_learned_table():
    layer = PositionalEncoding("learned", max_positions=4)
    layer.build((None, None, 8))
    add = tf.function(layer, input_signature=[tf.TensorSpec((None, None, 8))])
    assert add(tf.zeros((1, 4, 8))).shape == (1, 4, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        add(tf.zeros((1, 5, 8)))


def test_unusable_arguments_are_errors():
    with pytest.raises(ValueError, match="`kind` should be .*Received: kind='sine'"):
        PositionalEncoding("sine")
    with pytest.raises(ValueError, match="even width. Received: d_model=7"):
        PositionalEncoding()(tf.zeros((1, 3, 7)))
