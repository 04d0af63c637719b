"""Token embedding and its output projection, one table for both (paper section 3.4)."""

import math

import keras
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable("keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """A table of token vectors: ids to vectors times sqrt(d_model), and vectors to logits.

    Args:
        vocab_size: Rows of the table.
        d_model: Width of a row.

    Example:
        >>> embedding = TokenEmbedding(vocab_size=100, d_model=16)
        >>> x = embedding(keras.ops.array([[5, 7, 3]]))  # [1, 3, 16]
        >>> logits = embedding(x, reverse=True)  # [1, 3, 100], float32
    """

    def __init__(self, vocab_size, d_model, **kwargs):
        super().__init__(**kwargs)
        for name, value in {"vocab_size": vocab_size, "d_model": d_model}.items():
            if value < 1:
                raise ValueError(f"`{name}` should be at least 1. Received: {name}={value}.")
        self.vocab_size, self.d_model = vocab_size, d_model

    def build(self, inputs_shape):
        # A standard deviation of d_model^-0.5 gives embeddings of unit variance once scaled, and
        # logits of unit variance from normalised vectors.
        self.table = self.add_weight(
            shape=(self.vocab_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
            autocast=False,  # rows are cast when taken, and logits are float32
            name="table",
        )

    def call(self, inputs, reverse=False):
        """Ids to vectors, or with `reverse` vectors to logits.

        Args:
            inputs: int32 `[batch, length]`; with `reverse`, `[batch, length, d_model]`.
            reverse: Whether to project to the vocabulary.

        Returns:
            `[batch, length, d_model]`; with `reverse`, float32 `[batch, length, vocab_size]`.
        """
        if reverse:  # in float32 whatever the policy
            rows = ops.reshape(ops.cast(inputs, "float32"), (-1, self.d_model))
            logits = tf.matmul(rows, ops.cast(self.table.value, "float32"), transpose_b=True)
            return ops.reshape(logits, (*ops.shape(inputs)[:2], self.vocab_size))
        vectors = ops.cast(ops.take(self.table.value, inputs, axis=0), self.compute_dtype)
        return vectors * ops.cast(math.sqrt(self.d_model), vectors.dtype)

    def compute_output_spec(self, inputs, reverse=False):
        width, dtype = (
            (self.vocab_size, "float32") if reverse else (self.d_model, self.compute_dtype)
        )
        return keras.KerasTensor((*inputs.shape[:2], width), dtype=dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
        }


@keras.saving.register_keras_serializable("keras_transformer")
class OutputProjection(keras.layers.Layer):
    """The map from vectors to float32 logits where it shares no table (`tie_embeddings="none"`).

    Args:
        vocab_size: Number of target tokens.

    Example:
        >>> OutputProjection(100)(keras.random.normal((1, 3, 16))).shape
        TensorShape([1, 3, 100])
    """

    def __init__(self, vocab_size, **kwargs):
        super().__init__(**kwargs)
        if vocab_size < 1:
            raise ValueError(f"`vocab_size` should be at least 1. Received: {vocab_size}.")
        self.vocab_size = vocab_size

    def build(self, x_shape):
        d_model = x_shape[-1]
        self.kernel = self.add_weight(
            shape=(d_model, self.vocab_size),
            initializer=keras.initializers.RandomNormal(stddev=d_model**-0.5),
            autocast=False,  # logits are float32
            name="kernel",
        )

    def call(self, x):
        """Maps `[batch, length, d_model]` to float32 `[batch, length, vocab_size]`."""
        return ops.matmul(ops.cast(x, "float32"), ops.cast(self.kernel.value, "float32"))

    def compute_output_spec(self, x):
        return keras.KerasTensor((*x.shape[:2], self.vocab_size), dtype="float32")

    def get_config(self):
        return {**super().get_config(), "vocab_size": self.vocab_size}
