"""The decoder (paper section 3.1): as the encoder, with attention to it in between.

`decoding/incremental.py` computes the same one position at a time.
"""

import keras

from keras_transformer.layers.block import Block, Stack


@keras.saving.register_keras_serializable("keras_transformer")
class DecoderLayer(Block):
    """Self-attention, attention to the memory, feed-forward. Arguments: `Block`.

    Example:
        >>> layer = DecoderLayer(num_heads=8, d_k=64, d_v=64, d_ff=2048)
        >>> layer(keras.random.normal((2, 5, 512)), keras.random.normal((2, 7, 512))).shape
        TensorShape([2, 5, 512])
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.self_attention = self._attention("self_attention")
        self.self_attention_residual = self._residual("self_attention_residual")
        self.memory_attention = self._attention("memory_attention")
        self.memory_attention_residual = self._residual("memory_attention_residual")

    def build(self, x_shape, memory_shape):
        self.self_attention.build(x_shape, x_shape)
        self.memory_attention.build(x_shape, memory_shape)
        for layer in (
            self.self_attention_residual,
            self.memory_attention_residual,
            self.feed_forward,
            self.feed_forward_residual,
        ):
            layer.build(x_shape)

    def call(
        self,
        x,
        memory,
        self_mask=None,
        memory_mask=None,
        training=None,
        return_weights=False,
    ):
        """Maps `[batch, target_length, d_model]` to the same shape.

        Args:
            x: `[batch, target_length, d_model]`.
            memory: The encoder's output `[batch, source_length, d_model]`.
            self_mask: bool, broadcastable to `[batch, heads, target_length, target_length]`,
                True = attend; the causal mask is the caller's to give.
            memory_mask: bool, broadcastable to `[batch, heads, target_length, source_length]`.
            training: Whether dropout works.
            return_weights: Whether to return the attention weights as well.

        Returns:
            The output; with `return_weights` also a pair of weights, float32
            `[batch, heads, target_length, target_length or source_length]`.
        """
        x, to_self = self._attended(
            self.self_attention_residual, self.self_attention, x, None, self_mask, training
        )
        x, to_memory = self._attended(
            self.memory_attention_residual, self.memory_attention, x, memory, memory_mask, training
        )
        x = self._fed_forward(x, training)
        return (x, (to_self, to_memory)) if return_weights else x

    def compute_output_shape(self, x_shape, memory_shape):
        return x_shape


@keras.saving.register_keras_serializable("keras_transformer")
class Decoder(Stack):
    """N decoder layers. Arguments: `Stack`.

    Example:
        >>> decoder = Decoder(6, {"num_heads": 8, "d_k": 64, "d_v": 64, "d_ff": 2048})
        >>> y = decoder(keras.random.normal((2, 5, 512)), keras.random.normal((2, 7, 512)))
    """

    layer_class = DecoderLayer

    def build(self, x_shape, memory_shape):
        self._build_stack(x_shape, memory_shape)

    def call(
        self,
        x,
        memory,
        self_mask=None,
        memory_mask=None,
        training=None,
        return_weights=False,
    ):
        """As `DecoderLayer.call`; the weights are a list, an entry a layer."""
        masks = {"self_mask": self_mask, "memory_mask": memory_mask}
        return self._run(x, memory, **masks, training=training, return_weights=return_weights)

    def project_memory(self, memory):
        """Each layer's keys and values of the memory, which stay the same at every step."""
        return [block.memory_attention.project(memory) for block in self.blocks]

    def compute_output_shape(self, x_shape, memory_shape):
        return x_shape
