"""The decoder one output position at a time, with keys and values kept (paper section 3.1).

It computes what the decoder's layers compute for that position, from the same weights, in as few
TensorFlow operations as it can: a step of a small model costs more for their number than for
their size. `tests/decoding/test_incremental.py` holds it to the layers.

The keys and values of all a sentence's beams lie in one row of slots, beams beside each other,
and stay there: when a search goes on with other beams, what changes is only which slots each may
attend to.
"""

from __future__ import annotations

import dataclasses
import math
import typing

import keras
import tensorflow as tf

from keras_transformer.decoding.room import GROWING, Room
from keras_transformer.decoding.step_weights import LayerWeights, Norm, read
from keras_transformer.layers.position import sinusoids
from keras_transformer.model import token_embedding


class Past(typing.NamedTuple):
    """What the decoder keeps of the positions before.

    Attributes:
        origins: int32 `[batch, beam, positions]`: the beam that each beam went through at each
            position, -1 at those to come. `()` where there is one beam and no room ahead.
        layers: Each decoder layer's keys and values, `[batch, heads, positions * beam, width]`.
    """

    origins: tf.Tensor | tuple
    layers: list


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
        projection: float32 `[d_model, vocab_size]`.
    """

    projections: list
    mask: tf.Tensor
    layers: list[LayerWeights]
    final_norm: Norm | None
    embedding: tf.Tensor | tf.Variable
    positions: tf.Tensor
    projection: tf.Tensor

    @property
    def of_sentences(self):
        """What it holds of each sentence: tensors `[batch, ...]`."""
        return self.projections, self.mask

    def of(self, sentences) -> Memory:
        """The same of other sentences: `of_sentences` with other rows."""
        return dataclasses.replace(self, projections=sentences[0], mask=sentences[1])


class IncrementalDecoder:
    """Runs a model of `build_transformer` step by step.

    Args:
        model: The Keras model; its layers are used as they are, not copied.

    Attributes:
        max_positions: Positions that the model knows at most; None for any number.

    Example:
        >>> decoder = IncrementalDecoder(model)
        >>> memory = decoder.encode(source_ids, max_steps=50)
        >>> past = decoder.empty_past(batch=1, beam=1)
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
        self._turned_table = None
        self._sizes = self._decoder.blocks[0].settings
        learned = self._positions["target"].kind == "learned"
        self.max_positions = self._positions["target"].max_positions if learned else None

    def lay_out(self) -> list[tf.Variable]:
        """Lays out the weights for a step once, where they change no more.

        A tied embedding is also the projection's kernel, turned: by the table as it lies, a product
        for a few rows takes up to six times as long on a CPU. Without this, each `encode` turns it.

        Returns:
            What was laid out, for a SavedModel to keep.
        """
        if self._projection is None and self._turned_table is None:
            table = read(self._embeddings["target"].table, tf.float32)
            self._turned_table = tf.Variable(tf.transpose(table), trainable=False)
        return [] if self._turned_table is None else [self._turned_table]

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
            layers=[LayerWeights.of(block) for block in decoder.blocks],
            final_norm=None if decoder.final_norm is None else Norm.of(decoder.final_norm),
            embedding=table,
            positions=tf.cast(self._position_vectors(max_steps, table.shape[-1]), dtype),
            projection=self._kernel(),
        )

    def _kernel(self):
        """float32 `[d_model, vocab_size]`."""
        if self._projection is not None:
            return read(self._projection.kernel, tf.float32)
        if self._turned_table is not None:
            return tf.convert_to_tensor(self._turned_table)
        return tf.transpose(read(self._embeddings["target"].table, tf.float32))

    def _position_vectors(self, max_steps, d_model):
        layer = self._positions["target"]
        if layer.kind == "learned":
            return layer.table.value
        return sinusoids(tf.range(max_steps), d_model, layer.kind == "interleaved")

    def empty_past(self, batch, beam: int, room: Room = GROWING) -> Past:
        """What is kept before the first step.

        Args:
            batch: Sentences, an int or int32 scalar.
            beam: Beams of each.
            room: For the positions to come.
        """
        heads, widths = self._sizes["num_heads"], (self._sizes["d_k"], self._sizes["d_v"])
        dtype = self._decoder.compute_dtype
        layers = [
            tuple(room.empty((batch, heads), (width,), beam, dtype) for width in widths)
            for _ in self._decoder.blocks
        ]
        if beam == 1 and room.steps is None:  # it sees all there is
            return Past((), layers)
        return Past(room.empty((batch, beam), (), 1, tf.int32) - 1, layers)

    def step(self, ids, past: Past, memory: Memory, index, room: Room = GROWING):
        """One position of every beam.

        Args:
            ids: int32 `[batch, beam]`, the token before the one sought.
            past: From `empty_past`, or the step before.
            memory: From `encode`.
            index: int32 scalar, the position of `ids`, from 0.
            room: That of `empty_past`.

        Returns:
            float32 logits `[batch, beam, vocab_size]`; the past with this position; and the
            attention to the source, the mean over the last layer's heads, float32
            `[batch, beam, source_length]`.
        """
        beam = ids.shape[1]
        dtype, d_model = self._decoder.compute_dtype, memory.embedding.shape[-1]
        x = tf.cast(tf.gather(memory.embedding, tf.reshape(ids, (-1,))), dtype)
        x = x * tf.cast(math.sqrt(d_model), dtype) + tf.gather(memory.positions, index)
        origins = past.origins
        if not isinstance(origins, tuple):
            itself = tf.zeros_like(ids) + tf.range(beam)
            origins = room.put(origins, itself[:, :, None], index, 2)
        visible, presents, attention = self._visible(origins, index, beam), [], None
        for weights, one_past, projection in zip(
            memory.layers, past.layers, memory.projections, strict=True
        ):
            kept = _Kept(one_past, index * beam, room, visible)
            x, present, attention = self._layer(x, weights, kept, projection, memory.mask, beam)
            presents.append(present)
        if memory.final_norm is not None:
            x = memory.final_norm(x)
        logits = tf.matmul(tf.cast(x, tf.float32), memory.projection)
        logits = tf.reshape(logits, (-1, beam, logits.shape[-1]))
        return logits, Past(origins, presents), tf.reduce_mean(attention, axis=1)

    def _layer(self, x, weights: LayerWeights, kept: _Kept, projection, mask, beam):
        """A layer's output `[batch * beam, d_model]`, its past, and its attention to the source."""
        present, attention = (), None
        heads, d_k, d_v = (self._sizes[name] for name in ("num_heads", "d_k", "d_v"))

        def of_heads(x, count, width):  # the beams of a sentence as positions of one sequence
            if beam == 1:
                return tf.reshape(x, (-1, count, 1, width))
            return tf.transpose(tf.reshape(x, (-1, beam, count, width)), (0, 2, 1, 3))

        def joined(context):
            if beam > 1:
                context = tf.transpose(context, (0, 2, 1, 3))
            return tf.reshape(context, (-1, heads * d_v))

        def attend_to_self(x):
            nonlocal present
            inputs = tf.matmul(x, weights.self_inputs)
            if d_k == d_v:
                query, *new = tf.split(of_heads(inputs, 3 * heads, d_k), 3, axis=1)
            else:
                sizes = [2 * heads * d_k, heads * d_v]
                both, values = tf.split(inputs, sizes, axis=1)
                query, keys = tf.split(of_heads(both, 2 * heads, d_k), 2, axis=1)
                new = keys, of_heads(values, heads, d_v)
            present = tuple(
                kept.room.put(old, one, kept.place, 2)
                for old, one in zip(kept.past, new, strict=True)
            )
            context, _ = _attend(query, *present, kept.visible)
            return tf.matmul(joined(context), weights.self_output)

        def attend_to_memory(x):
            nonlocal attention
            query = of_heads(tf.matmul(x, weights.memory_query), heads, d_k)
            context, attention = _attend(query, *projection, mask)
            return tf.matmul(joined(context), weights.memory_output)

        def feed_forward(x):
            inner = tf.nn.bias_add(tf.matmul(x, weights.inner[0]), weights.inner[1])
            inner = keras.activations.get(self._sizes["activation"])(inner)
            return tf.nn.bias_add(tf.matmul(inner, weights.outer[0]), weights.outer[1])

        sublayers = attend_to_self, attend_to_memory, feed_forward
        for norm, sublayer in zip(weights.norms, sublayers, strict=True):
            x = x + sublayer(norm(x)) if self._sizes["norm"] == "pre" else norm(x + sublayer(x))
        return x, present, attention

    def _visible(self, origins, index, beam):
        """bool, broadcast to `[batch, heads, beam, slots]`: what each beam sees; None for all."""
        window = self._masks.window
        if isinstance(origins, tuple):
            if window is None:
                return None
            return (tf.range(index + 1) >= index - window // 2)[None, None, None, :]
        seen = origins[:, :, :, None] == tf.range(beam)
        if window is not None:
            positions = tf.range(tf.shape(origins)[2])
            seen &= (positions >= index - window // 2)[:, None]
        batch, _, positions, _ = tf.unstack(tf.shape(seen))
        return tf.reshape(seen, (batch, 1, beam, positions * beam))

    @staticmethod
    def reorder(past: Past, beams) -> Past:
        """The past of other beams: beam i of each sentence becomes int32 `beams[:, i]`."""
        if isinstance(past.origins, tuple):  # one beam: there is no other
            return past
        return past._replace(origins=tf.gather(past.origins, beams, batch_dims=1))


class _Kept(typing.NamedTuple):
    """A layer's past, where this step's keys and values go, and which are seen."""

    past: tuple
    place: tf.Tensor
    room: Room
    visible: tf.Tensor | None


def _attend(queries, keys, values, mask):
    """As `scaled_dot_product_attention`, of scaled queries that may attend to something."""
    scores = tf.cast(tf.matmul(queries, keys, transpose_b=True), tf.float32)
    if mask is not None:  # (not added: with oneDNN a product and a sum become one slow kernel)
        scores = tf.where(mask, scores, -1e9)
    weights = tf.nn.softmax(scores)
    return tf.matmul(tf.cast(weights, values.dtype), values), weights
