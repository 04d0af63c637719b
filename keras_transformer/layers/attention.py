"""Attention (paper section 3.2): scaled dot-product and multi-head.

Masks everywhere are bool, True = may attend, and broadcast to
`[batch, heads, query_length, key_length]`; `masks.py` makes them.
"""

import math

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.layers.dropout import Dropout


def scaled_dot_product_attention(queries, keys, values, mask=None, dropout=None):
    """softmax(Q K^T / sqrt(d_k)) V (equation 1), with the softmax in float32.

    A query that may attend to nothing yields zeros.

    Args:
        queries: `[batch, heads, query_length, d_k]`.
        keys: `[batch, heads, key_length, d_k]`.
        values: `[batch, heads, key_length, d_v]`.
        mask: bool, broadcastable to `[batch, heads, query_length, key_length]`, True = attend.
        dropout: A function applied to the weights, or None.

    Returns:
        A pair: the output `[batch, heads, query_length, d_v]` in the dtype of `values`, and the
        weights before dropout, float32 `[batch, heads, query_length, key_length]`.

    Example:
        >>> q = keras.random.normal((1, 8, 5, 64))
        >>> output, weights = scaled_dot_product_attention(q, q, q)
    """
    # The scale goes on the queries, which are smaller than the scores; and the mask selects
    # instead of adding, since TensorFlow's CPU kernel for "product + mask" is very slow.
    queries = queries * ops.cast(1.0 / math.sqrt(queries.shape[-1]), queries.dtype)
    scores = ops.cast(tf.matmul(queries, keys, transpose_b=True), "float32")
    if mask is not None:
        scores = ops.where(mask, scores, -1e9)
    weights = tf.nn.softmax(scores)  # (Keras's own warns of a sequence of one token)
    if mask is not None:
        weights = ops.where(mask, weights, 0.0)  # a row of equal -1e9 is uniform; make it zero
    dropped = weights if dropout is None else dropout(weights)
    return ops.matmul(ops.cast(dropped, values.dtype), values), weights


@keras.saving.register_keras_serializable("keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Concat(head_1, ..., head_h) W^O (section 3.2.2), without biases, as the paper writes it.

    `layer(x, x, mask)` is self-attention and `layer(x, memory, mask)` attends from one sequence to
    another. `project` and `attend` are its two halves; decoding takes the first for the memory.

    Args:
        num_heads: h.
        d_k: Width of a head's queries and keys.
        d_v: Width of a head's values.
        dropout: Rate on the attention weights.

    Example:
        >>> layer = MultiHeadAttention(num_heads=8, d_k=64, d_v=64)
        >>> x = keras.random.normal((2, 7, 512))
        >>> layer(x, x).shape
        TensorShape([2, 7, 512])
    """

    def __init__(self, num_heads, d_k, d_v, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        for name, value in {"num_heads": num_heads, "d_k": d_k, "d_v": d_v}.items():
            if value < 1:
                raise ValueError(f"`{name}` should be at least 1. Received: {name}={value}.")
        self.num_heads, self.d_k, self.d_v, self.dropout = num_heads, d_k, d_v, dropout
        self.attention_dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.query, self.key, self.value = (
            keras.layers.Dense(width, use_bias=False, dtype=self.dtype_policy, name=name)
            for name, width in (
                ("query", num_heads * d_k),
                ("key", num_heads * d_k),
                ("value", num_heads * d_v),
            )
        )
        self.output_projection = None  # its width is the query's, known in build

    def build(self, query_shape, value_shape):
        self.output_projection = keras.layers.Dense(
            query_shape[-1], use_bias=False, dtype=self.dtype_policy, name="output"
        )
        self.query.build(query_shape)
        self.key.build(value_shape)
        self.value.build(value_shape)
        self.output_projection.build((*query_shape[:-1], self.num_heads * self.d_v))

    def call(self, query, value, attention_mask=None, training=None, return_weights=False):
        """Attends from `query` to `value`.

        Args:
            query: `[batch, query_length, d_model]`.
            value: `[batch, key_length, d_model]`, what keys and values are made of.
            attention_mask: bool, broadcastable to `[batch, heads, query_length, key_length]`,
                True = attend. (Keras gives a meaning of its own to an argument named `mask`.)
            training: Whether dropout works.
            return_weights: Whether to return the attention weights as well.

        Returns:
            `[batch, query_length, d_model]`; with `return_weights` a pair, whose second is float32
            `[batch, heads, query_length, key_length]`.
        """
        keys, values = self.project(value)
        output, weights = self.attend(query, keys, values, attention_mask, training=training)
        return (output, weights) if return_weights else output

    def project(self, value):
        """Keys `[batch, heads, length, d_k]` and values `[..., d_v]` of `[batch, length, d]`."""
        return self._split_heads(self.key(value)), self._split_heads(self.value(value))

    def attend(self, query, keys, values, mask=None, training=False):
        """As `call`, to keys and values that `project` made; returns output and weights."""
        dropout = None
        if self.dropout:
            dropout = lambda weights: self.attention_dropout(weights, training=training)  # noqa: E731
        heads, weights = scaled_dot_product_attention(
            self._split_heads(self.query(query)), keys, values, mask, dropout
        )
        batch, length, _ = ops.shape(query)  # (-1 would be no one's guess where there is no row)
        heads = ops.transpose(heads, (0, 2, 1, 3))
        joined = ops.reshape(heads, (batch, length, self.num_heads * self.d_v))
        return self.output_projection(joined), weights

    def _split_heads(self, x):
        batch, length, width = ops.shape(x)
        x = ops.reshape(x, (batch, length, self.num_heads, width // self.num_heads))
        return ops.transpose(x, (0, 2, 1, 3))

    def compute_output_spec(
        self, query, value, attention_mask=None, training=None, return_weights=False
    ):
        output = keras.KerasTensor(query.shape, dtype=self.compute_dtype)
        if not return_weights:
            return output
        shape = (query.shape[0], self.num_heads, query.shape[1], value.shape[1])
        return output, keras.KerasTensor(shape, dtype="float32")

    def get_config(self):
        names = ("num_heads", "d_k", "d_v", "dropout")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
