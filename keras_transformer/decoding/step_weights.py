"""The decoder's weights, laid out for one output position at a time."""

from __future__ import annotations

import math
import typing

import keras
import tensorflow as tf


def read(weight, dtype):
    """A weight's value as a tensor, read here and not at each use."""
    return tf.cast(tf.convert_to_tensor(weight.value), dtype)


class Norm(typing.NamedTuple):
    """A layer normalisation: gain and bias `[d_model]`, float32."""

    gamma: tf.Tensor
    beta: tf.Tensor
    epsilon: float

    @classmethod
    def of(cls, layer: keras.layers.LayerNormalization) -> Norm:
        gamma, beta = (read(weight, tf.float32) for weight in (layer.gamma, layer.beta))
        return cls(gamma, beta, layer.epsilon)

    def __call__(self, x):
        centred = tf.cast(x, tf.float32)
        centred -= tf.reduce_mean(centred, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        y = centred * tf.math.rsqrt(variance + self.epsilon) * self.gamma + self.beta
        return tf.cast(y, x.dtype)


class LayerWeights(typing.NamedTuple):
    """A decoder layer's weights, laid out for a step."""

    self_inputs: tf.Tensor  # queries (scaled), keys and values, side by side
    self_output: tf.Tensor
    memory_query: tf.Tensor  # scaled
    memory_output: tf.Tensor
    inner: tuple
    outer: tuple
    norms: tuple  # of the three sublayers

    @classmethod
    def of(cls, block) -> LayerWeights:
        dtype, scale = block.compute_dtype, 1.0 / math.sqrt(block.settings["d_k"])

        def kernel(dense):
            return read(dense.kernel, dtype)

        def both(dense):
            return kernel(dense), read(dense.bias, dtype)

        own, other = block.self_attention, block.memory_attention
        inputs = [kernel(own.query) * tf.cast(scale, dtype), kernel(own.key), kernel(own.value)]
        residuals = (
            block.self_attention_residual,
            block.memory_attention_residual,
            block.feed_forward_residual,
        )
        return cls(
            self_inputs=tf.concat(inputs, axis=1),
            self_output=kernel(own.output_projection),
            memory_query=kernel(other.query) * tf.cast(scale, dtype),
            memory_output=kernel(other.output_projection),
            inner=both(block.feed_forward.inner),
            outer=both(block.feed_forward.outer),
            norms=tuple(Norm.of(residual.layer_norm) for residual in residuals),
        )
