"""The model one output position at a time, with keys and values kept (paper section 3.1)."""

from __future__ import annotations

import dataclasses

import keras
import tensorflow as tf

from keras_transformer.layers.masks import padding_mask


@dataclasses.dataclass(frozen=True)
class Memory:
    """What stays the same at every step.

    Attributes:
        projections: Each decoder layer's keys and values of the encoder's output,
            `[batch, heads, source_length, d_k or d_v]`.
        mask: bool `[batch, 1, 1, source_length]`, True = attend.
    """

    projections: list
    mask: tf.Tensor


class IncrementalDecoder:
    """Runs a model of `build_transformer` step by step.

    Args:
        model: The Keras model; its layers are used as they are, not copied.

    Example:
        >>> decoder = IncrementalDecoder(model)
        >>> memory = decoder.encode(source_ids)
        >>> past = decoder.empty_past(batch=1)
        >>> logits, past = decoder.step(tf.constant([[BEGIN_ID]]), past, memory, 0)
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
        self._embeddings = {
            side: model.get_layer("embedding" if "embedding" in names else f"{side}_embedding")
            for side in ("source", "target")
        }
        self._projection = model.get_layer("projection") if "projection" in names else None

    def encode(self, source_ids) -> Memory:
        """The memory of int32 `[batch, source_length]` ids, 0 where they pad."""
        source_mask, _, memory_mask = self._masks(source_ids, source_ids[:, :1])
        x = self._positions["source"](self._embeddings["source"](source_ids))
        memory = self._encoder(x, source_mask)
        return Memory(self._decoder.project_memory(memory), memory_mask)

    def empty_past(self, batch):
        """Keys and values before the first step, for `batch` sequences (beams counted)."""
        return self._decoder.empty_past(batch)

    def step(self, ids, past, memory: Memory, index):
        """One position of every beam.

        Args:
            ids: int32 `[batch, beam]`, the token before the one sought.
            past: From `empty_past(batch * beam)` or the step before.
            memory: From `encode`.
            index: int32 scalar, the position of `ids`, from 0.

        Returns:
            float32 logits `[batch, beam, vocab_size]`, and the past with this position.
        """
        batch, beam = tf.shape(ids)[0], tf.shape(ids)[1]
        x = self._embeddings["target"](tf.reshape(ids, (-1, 1)))
        x = self._positions["target"](x, start=index)
        x = tf.reshape(x, (batch, beam, x.shape[-1]))
        x, past = self._decoder.step(x, past, memory.projections, self._window(index), memory.mask)
        if self._projection is not None:
            return self._projection(x), past
        return self._embeddings["target"](x, reverse=True), past

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


def score_pairs(model: keras.Model, source_ids, target_ids, target_out):
    """Log probability of given targets.

    Args:
        model: From `build_transformer`.
        source_ids: int32 `[batch, source_length]`.
        target_ids: int32 `[batch, target_length]`, from the begin mark.
        target_out: int32 `[batch, target_length]`, to the end mark; 0 where it pads.

    Returns:
        float32 `[batch]`, the sum over the tokens, end mark included.
    """
    log_probs = tf.nn.log_softmax(model([source_ids, target_ids], training=False))
    chosen = tf.gather(log_probs, target_out, batch_dims=2)
    return tf.reduce_sum(tf.where(padding_mask(target_out)[:, 0, 0], chosen, 0.0), axis=1)
