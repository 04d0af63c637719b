"""The decoder (paper section 3.1): as the encoder, with attention to it in between.

For decoding, `step` computes one position from the keys and values of those before it, kept in a
cache; it gives what `call` gives for that position.
"""

import keras
from keras import ops

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

    def call(self, x, memory, self_mask=None, memory_mask=None, training=None):
        """Maps `[batch, target_length, d_model]` to the same shape.

        Args:
            x: `[batch, target_length, d_model]`.
            memory: The encoder's output `[batch, source_length, d_model]`.
            self_mask: bool, broadcastable to `[batch, heads, target_length, target_length]`,
                True = attend; the causal mask is the caller's to give.
            memory_mask: bool, broadcastable to `[batch, heads, target_length, source_length]`.
            training: Whether dropout works.
        """
        return self._sublayers(
            x,
            lambda x: self.self_attention(x, x, self_mask, training=training),
            lambda x: self.memory_attention(x, memory, memory_mask, training=training),
            training,
        )

    def step(self, x, past, memory, self_mask=None, memory_mask=None):
        """One position of several hypotheses a sentence (beams), without dropout.

        Args:
            x: `[batch, beam, d_model]`, each beam's vector at this position.
            past: Keys and values of the positions before:
                `[batch * beam, heads, step, d_k or d_v]`.
            memory: Keys and values of the memory, from `memory_attention.project`.
            self_mask: bool, broadcastable to `[batch * beam, heads, 1, step + 1]`.
            memory_mask: bool, broadcastable to `[batch, heads, 1, source_length]`.

        Returns:
            `[batch, beam, d_model]`, and `past` with this position added.
        """
        present = past

        def attend_to_self(x):
            nonlocal present
            rows = ops.reshape(x, (-1, 1, x.shape[-1]))  # to itself each beam attends alone
            new = self.self_attention.project(rows)
            present = tuple(ops.concatenate(pair, axis=2) for pair in zip(past, new, strict=True))
            y = self.self_attention.attend(rows, *present, self_mask)[0]
            return ops.reshape(y, ops.shape(x))

        # To the memory, which they share, the beams attend as positions of one sequence would.
        x = self._sublayers(
            x,
            attend_to_self,
            lambda x: self.memory_attention.attend(x, *memory, memory_mask)[0],
            training=False,
        )
        return x, present

    def _sublayers(self, x, attend_to_self, attend_to_memory, training):
        x = self.self_attention_residual(x, sublayer=attend_to_self, training=training)
        x = self.memory_attention_residual(x, sublayer=attend_to_memory, training=training)
        return self.feed_forward_residual(
            x, sublayer=lambda x: self.feed_forward(x, training=training), training=training
        )

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

    def call(self, x, memory, self_mask=None, memory_mask=None, training=None):
        """As `DecoderLayer.call`."""
        for block in self.blocks:
            x = block(x, memory, self_mask=self_mask, memory_mask=memory_mask, training=training)
        return self._finish(x)

    def project_memory(self, memory):
        """Each layer's keys and values of the memory, which stay the same at every step."""
        return [block.memory_attention.project(memory) for block in self.blocks]

    def empty_past(self, batch):
        """Each layer's keys and values before the first step: `[batch, heads, 0, d_k or d_v]`."""
        s = self.blocks[0].settings
        return [
            tuple(
                ops.zeros((batch, s["num_heads"], 0, width), dtype=self.compute_dtype)
                for width in (s["d_k"], s["d_v"])
            )
            for _ in self.blocks
        ]

    def step(self, x, pasts, memories, self_mask=None, memory_mask=None):
        """As `DecoderLayer.step`, with a list entry of `pasts` and `memories` for each layer."""
        presents = []
        for block, past, memory in zip(self.blocks, pasts, memories, strict=True):
            x, present = block.step(x, past, memory, self_mask, memory_mask)
            presents.append(present)
        return self._finish(x), presents

    def compute_output_shape(self, x_shape, memory_shape):
        return x_shape
