"""Position-wise feed-forward network (paper section 3.3)."""

import keras

from keras_transformer.layers.dropout import Dropout


@keras.saving.register_keras_serializable("keras_transformer")
class FeedForward(keras.layers.Layer):
    """max(0, x W1 + b1) W2 + b2 (equation 2), at each position alike.

    Args:
        d_ff: Inner width.
        activation: Name of a Keras activation.
        dropout: Rate on the activations (`relu_dropout`; the paper has none).

    Example:
        >>> FeedForward(d_ff=2048)(keras.random.normal((2, 7, 512))).shape
        TensorShape([2, 7, 512])
    """

    def __init__(self, d_ff, activation="relu", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        if d_ff < 1:
            raise ValueError(f"`d_ff` should be at least 1. Received: d_ff={d_ff}.")
        self.d_ff, self.activation, self.dropout = d_ff, activation, dropout
        self.inner = keras.layers.Dense(
            d_ff, activation=activation, dtype=self.dtype_policy, name="inner"
        )
        self.inner_dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.outer = None  # its width is the input's, known in build

    def build(self, x_shape):
        self.outer = keras.layers.Dense(x_shape[-1], dtype=self.dtype_policy, name="outer")
        self.inner.build(x_shape)
        self.outer.build((*x_shape[:-1], self.d_ff))

    def call(self, x, training=None):
        """Maps `[batch, length, d_model]` to the same shape."""
        return self.outer(self.inner_dropout(self.inner(x), training=training))

    def compute_output_shape(self, x_shape):
        return x_shape

    def get_config(self):
        names = ("d_ff", "activation", "dropout")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
