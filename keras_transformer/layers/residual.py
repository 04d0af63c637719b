"""The connection around every sublayer (paper sections 3.1 and 5.4)."""

import keras

from keras_transformer.layers.dropout import Dropout


@keras.saving.register_keras_serializable("keras_transformer")
class Residual(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))), the paper's "post" norm; or "pre", its later form.

    Args:
        norm: "post", or "pre": x + Dropout(Sublayer(LayerNorm(x))).
        dropout: Rate on the sublayer's output (P_drop).
        epsilon: Added to the variance.

    Example:
        >>> x = keras.random.normal((2, 7, 512))
        >>> y = Residual()(x, sublayer=lambda x: 0.5 * x)
    """

    def __init__(self, norm="post", dropout=0.0, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        if norm not in ("post", "pre"):
            raise ValueError(f"`norm` should be 'post' or 'pre'. Received: norm={norm!r}.")
        self.norm, self.dropout, self.epsilon = norm, dropout, epsilon
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=epsilon, dtype=self.dtype_policy, name="norm"
        )
        self.residual_dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, x_shape):
        self.layer_norm.build(x_shape)

    def call(self, x, sublayer, training=None):
        """Maps `[batch, length, d_model]` to the same shape through the function `sublayer`."""
        y = sublayer(self.layer_norm(x) if self.norm == "pre" else x)
        y = x + self.residual_dropout(y, training=training)
        return self.layer_norm(y) if self.norm == "post" else y

    def get_config(self):
        names = ("norm", "dropout", "epsilon")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
