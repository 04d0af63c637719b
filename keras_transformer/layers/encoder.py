"""The encoder (paper section 3.1): self-attention and feed-forward, N times."""

import keras

from keras_transformer.layers.block import Block, Stack


@keras.saving.register_keras_serializable("keras_transformer")
class EncoderLayer(Block):
    """Self-attention, then feed-forward, each with its residual connection. Arguments: `Block`.

    Example:
        >>> layer = EncoderLayer(num_heads=8, d_k=64, d_v=64, d_ff=2048)
        >>> layer(keras.random.normal((2, 7, 512))).shape
        TensorShape([2, 7, 512])
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.self_attention = self._attention("self_attention")
        self.self_attention_residual = self._residual("self_attention_residual")

    def build(self, x_shape):
        self.self_attention.build(x_shape, x_shape)
        for layer in (self.self_attention_residual, self.feed_forward, self.feed_forward_residual):
            layer.build(x_shape)

    def call(self, x, self_mask=None, training=None, return_weights=False):
        """Maps `[batch, length, d_model]` to the same shape.

        Args:
            x: `[batch, length, d_model]`.
            self_mask: bool, broadcastable to `[batch, heads, length, length]`, True = attend.
            training: Whether dropout works.
            return_weights: Whether to return the attention weights as well.

        Returns:
            The output; with `return_weights` also float32 `[batch, heads, length, length]`.
        """
        x, weights = self._attended(
            self.self_attention_residual, self.self_attention, x, None, self_mask, training
        )
        x = self._fed_forward(x, training)
        return (x, weights) if return_weights else x

    def compute_output_shape(self, x_shape):
        return x_shape


@keras.saving.register_keras_serializable("keras_transformer")
class Encoder(Stack):
    """N encoder layers. Arguments: `Stack`.

    Example:
        >>> encoder = Encoder(6, {"num_heads": 8, "d_k": 64, "d_v": 64, "d_ff": 2048})
        >>> memory = encoder(keras.random.normal((2, 7, 512)))
    """

    layer_class = EncoderLayer

    def build(self, x_shape):
        self._build_stack(x_shape)

    def call(self, x, self_mask=None, training=None, return_weights=False):
        """As `EncoderLayer.call`; the weights are a list, an entry a layer."""
        return self._run(x, self_mask=self_mask, training=training, return_weights=return_weights)

    def compute_output_shape(self, x_shape):
        return x_shape
