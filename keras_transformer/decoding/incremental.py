"""The decoder one output position at a time, with keys and values kept (paper section 3.1).

It computes what the decoder's layers compute for that position, from the same weights, in as few
TensorFlow operations as it can: a step of a small model costs more for their number than for
their size. `tests/decoding/test_incremental.py` holds it to the layers.
"""

from __future__ import annotations

import dataclasses
import math
import typing

import keras
import tensorflow as tf

from keras_transformer.layers.position import sinusoids
from keras_transformer.model import token_embedding


class _Norm(typing.NamedTuple):
    """A layer normalisation: gain and bias `[d_model]`, float32."""

    gamma: tf.Tensor
    beta: tf.Tensor
    epsilon: float

    @classmethod
    def of(cls, layer: keras.layers.LayerNormalization) -> _Norm:
        return cls(tf.cast(layer.gamma.value, tf.float32), layer.beta.value, layer.epsilon)

    def __call__(self, x):
        x32 = tf.cast(x, tf.float32)
        mean, variance = tf.nn.moments(x32, axes=-1, keepdims=True)
        y = tf.nn.batch_normalization(
            x32, mean, variance, tf.cast(self.beta, tf.float32), self.gamma, self.epsilon
        )
        return tf.cast(y, x.dtype)


class _LayerWeights(typing.NamedTuple):
    """A decoder layer's weights, laid out for a step."""

    self_inputs: tf.Tensor  # queries (scaled), keys and values, side by side
    self_output: tf.Tensor
    memory_query: tf.Tensor  # scaled
    memory_output: tf.Tensor
    inner: tuple
    outer: tuple
    norms: tuple  # of the three sublayers

    @classmethod
    def of(cls, block) -> _LayerWeights:
        dtype, scale = block.compute_dtype, 1.0 / math.sqrt(block.settings["d_k"])

        def kernel(dense):
            return tf.cast(dense.kernel.value, dtype)

        def both(dense):
            return kernel(dense), tf.cast(dense.bias.value, dtype)

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
            norms=tuple(_Norm.of(residual.layer_norm) for residual in residuals),
        )


@dataclasses.dataclass(frozen=True)
class Memory:
    """What stays the same at every step; made outside a search's loop.

    Attributes:
        projections: Each decoder layer's keys and values of the encoder's output,
            `[batch, heads, source_length, d_k or d_v]`.
        mask: bool `[batch, 1, 1, source_length]`, True = attend.
        layers: Each decoder layer's weights.
        final_norm: The decoder's last normalisation, or None.
        embedding: `[vocab_size, d_model]`.
        positions: `[max_steps, d_model]`, the position vectors.
        projection: float32 `[d_model, vocab_size]`. A tied embedding is turned into it once: by the
            table as it lies, a product for a few rows takes up to six times as long on a CPU.
    """

    projections: list
    mask: tf.Tensor
    layers: list[_LayerWeights]
    final_norm: _Norm | None
    embedding: tf.Tensor
    positions: tf.Tensor
    projection: tf.Tensor


class IncrementalDecoder:
    """Runs a model of `build_transformer` step by step.

    Args:
        model: The Keras model; its layers are used as they are, not copied.

    Attributes:
        max_positions: Positions that the model knows at most; None for any number.

    Example:
        >>> decoder = IncrementalDecoder(model)
        >>> memory = decoder.encode(source_ids, max_steps=50)
        >>> past = decoder.empty_past(1)
        >>> logits, past, attention = decoder.step(tf.constant([[BEGIN_ID]]), past, memory, 0)
    """

    def __init__(self, model: keras.Model):
        names = {layer.name for layer in model.layers}
        if not {"encoder", "decoder", "masks"} <= names:
            raise ValueError(
                "A model of build_transformer was expected, with layers 'encoder', 'decoder' and "
                f"'masks'. Received a model with the layers: {', '.join(sorted(names))}."
            )
        self._encoder, self._decoder = model.get_layer("encoder"), model.get_layer("decoder")
        self._masks = model.get_layer("masks")
        self._positions = {
            side: model.get_layer(f"{side}_positions") for side in ("source", "target")
        }
        self._embeddings = {side: token_embedding(model, side) for side in ("source", "target")}
        self._projection = model.get_layer("projection") if "projection" in names else None
        self._sizes = self._decoder.blocks[0].settings
        learned = self._positions["target"].kind == "learned"
        self.max_positions = self._positions["target"].max_positions if learned else None

    def encode(self, source_ids, max_steps) -> Memory:
        """The memory of int32 `[batch, source_length]` ids, 0 where they pad.

        Args:
            source_ids: The ids.
            max_steps: Steps that it is for at most, an int or int32 scalar.
        """
        source_mask, _, memory_mask = self._masks(source_ids, source_ids[:, :1])
        x = self._positions["source"](self._embeddings["source"](source_ids))
        memory = self._encoder(x, source_mask)
        decoder, dtype = self._decoder, self._decoder.compute_dtype
        table = self._embeddings["target"].table.value
        # Values of padding are zeros, so that a row of nothing else yields zeros, as in the layers.
        real = tf.transpose(memory_mask, (0, 1, 3, 2))
        projections = [
            (keys, tf.where(real, values, tf.zeros_like(values)))
            for keys, values in decoder.project_memory(memory)
        ]
        return Memory(
            projections=projections,
            mask=memory_mask,
            layers=[_LayerWeights.of(block) for block in decoder.blocks],
            final_norm=None if decoder.final_norm is None else _Norm.of(decoder.final_norm),
            embedding=tf.convert_to_tensor(table),
            positions=tf.cast(self._position_vectors(max_steps, table.shape[-1]), dtype),
            projection=tf.cast(
                tf.transpose(table) if self._projection is None else self._projection.kernel.value,
                tf.float32,
            ),
        )

    def _position_vectors(self, max_steps, d_model):
        layer = self._positions["target"]
        if layer.kind == "learned":
            return layer.table.value
        return sinusoids(tf.range(max_steps), d_model, layer.kind == "interleaved")

    def empty_past(self, rows):
        """Keys and values before the first step, for `rows` sequences (beams counted).

        Returns:
            For each decoder layer, `[rows, heads, 0, d_k]` and `[rows, heads, 0, d_v]`.
        """
        heads, widths = self._sizes["num_heads"], (self._sizes["d_k"], self._sizes["d_v"])
        return [
            tuple(
                tf.zeros((rows, heads, 0, width), self._decoder.compute_dtype) for width in widths
            )
            for _ in self._decoder.blocks
        ]

    def step(self, ids, past, memory: Memory, index):
        """One position of every beam.

        Args:
            ids: int32 `[batch, beam]`, the token before the one sought.
            past: From `empty_past(batch * beam)` or the step before.
            memory: From `encode`.
            index: int32 scalar, the position of `ids`, from 0.

        Returns:
            float32 logits `[batch, beam, vocab_size]`; the past with this position; and the
            attention to the source, the mean over the last layer's heads, float32
            `[batch, beam, source_length]`.
        """
        beam = ids.shape[1] or tf.shape(ids)[1]
        dtype, d_model = self._decoder.compute_dtype, memory.embedding.shape[-1]
        x = tf.cast(tf.gather(memory.embedding, tf.reshape(ids, (-1,))), dtype)
        x = x * tf.cast(math.sqrt(d_model), dtype) + tf.gather(memory.positions, index)
        window, presents, attention = self._window(index), [], None
        for weights, one_past, projection in zip(
            memory.layers, past, memory.projections, strict=True
        ):
            x, present, attention = self._layer(
                x, weights, one_past, window, projection, memory.mask, beam
            )
            presents.append(present)
        if memory.final_norm is not None:
            x = memory.final_norm(x)
        logits = tf.matmul(tf.cast(x, tf.float32), memory.projection)
        logits = tf.reshape(logits, (-1, beam, logits.shape[-1]))
        return logits, presents, tf.reduce_mean(attention, axis=1)

    def _layer(self, x, weights: _LayerWeights, past, window, projection, mask, beam):
        """A layer's output `[rows, d_model]`, its past, and its attention to the source."""
        present, attention = past, None

        def attend_to_self(x):
            nonlocal present
            heads, d_k, d_v = (self._sizes[name] for name in ("num_heads", "d_k", "d_v"))
            widths = (d_k, d_k, d_v)
            parts = tf.split(tf.matmul(x, weights.self_inputs), [heads * w for w in widths], axis=1)
            query, key, value = (
                tf.reshape(part, (-1, heads, 1, width))
                for part, width in zip(parts, widths, strict=True)
            )
            present = tf.concat([past[0], key], axis=2), tf.concat([past[1], value], axis=2)
            context, _ = _attend(query, *present, window)
            return tf.matmul(tf.reshape(context, (-1, heads * d_v)), weights.self_output)

        def attend_to_memory(x):  # the beams of a sentence as positions of one sequence
            nonlocal attention
            heads, d_k, d_v = (self._sizes[name] for name in ("num_heads", "d_k", "d_v"))
            query = tf.reshape(tf.matmul(x, weights.memory_query), (-1, beam, heads, d_k))
            context, attention = _attend(_swapped(query, beam, heads), *projection, mask)
            context = _swapped(context, heads, beam)
            return tf.matmul(tf.reshape(context, (-1, heads * d_v)), weights.memory_output)

        def feed_forward(x):
            inner = tf.nn.bias_add(tf.matmul(x, weights.inner[0]), weights.inner[1])
            inner = keras.activations.get(self._sizes["activation"])(inner)
            return tf.nn.bias_add(tf.matmul(inner, weights.outer[0]), weights.outer[1])

        sublayers = attend_to_self, attend_to_memory, feed_forward
        for norm, sublayer in zip(weights.norms, sublayers, strict=True):
            x = x + sublayer(norm(x)) if self._sizes["norm"] == "pre" else norm(x + sublayer(x))
        return x, present, attention

    def _window(self, index):
        """bool `[1, 1, 1, index + 1]`: which positions restricted attention lets the step see."""
        if self._masks.window is None:
            return None
        near = tf.range(index + 1) >= index - self._masks.window // 2
        return near[None, None, None, :]

    @staticmethod
    def reorder(past, rows):
        """The past of other beams: row i of the result is row `rows[i]`."""
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), past)


def _swapped(x, first, second):
    """`[batch, first, second, width]` to `[batch, second, first, width]`."""
    if 1 in (first, second):  # nothing moves
        return tf.reshape(x, (-1, second, first, x.shape[-1]))
    return tf.transpose(x, (0, 2, 1, 3))


def _attend(queries, keys, values, mask):
    """As `scaled_dot_product_attention`, of scaled queries that may attend to something."""
    scores = tf.cast(tf.matmul(queries, keys, transpose_b=True), tf.float32)
    if mask is not None:
        scores = tf.where(mask, scores, -1e9)
    weights = tf.nn.softmax(scores)
    return tf.matmul(tf.cast(weights, values.dtype), values), weights
