"""Who may attend to whom: bool masks, True = attend, made once from the ids (section 3.2.3)."""

import keras
from keras import ops

from keras_transformer.config import PAD_ID


def padding_mask(ids):
    """bool `[batch, 1, 1, length]` of int32 `[batch, length]`: every token but padding."""
    return ops.not_equal(ids, PAD_ID)[:, None, None, :]


def causal_mask(length):
    """bool `[1, 1, length, length]`: a position sees itself and those before it."""
    positions = ops.arange(length)
    return (positions[:, None] >= positions)[None, None]


def window_mask(length, window):
    """bool `[1, 1, length, length]`: positions at most window // 2 apart (section 4)."""
    positions = ops.arange(length)
    return (ops.abs(positions[:, None] - positions) <= window // 2)[None, None]


@keras.saving.register_keras_serializable("keras_transformer")
class AttentionMasks(keras.layers.Layer):
    """The three masks of a Transformer from its two inputs.

    Args:
        window: r of restricted self-attention (section 4): both stacks' self-attention sees
            positions at most r // 2 away. None for no restriction.

    Example:
        >>> ids = keras.ops.array([[5, 3, 0]])
        >>> source_mask, target_mask, memory_mask = AttentionMasks()(ids, ids)
    """

    def __init__(self, window=None, **kwargs):
        super().__init__(**kwargs)
        self.window = window

    def call(self, source_ids, target_ids):
        """Makes the masks.

        Args:
            source_ids: int32 `[batch, source_length]`.
            target_ids: int32 `[batch, target_length]`.

        Returns:
            bool masks of encoder self-attention `[batch, 1, 1 or source_length, source_length]`,
            decoder self-attention `[batch, 1, target_length, target_length]`, and attention from
            decoder to encoder `[batch, 1, 1, source_length]`.
        """
        memory_mask = source_mask = padding_mask(source_ids)
        target_length = ops.shape(target_ids)[1]
        target_mask = padding_mask(target_ids) & causal_mask(target_length)
        if self.window is not None:
            source_mask = source_mask & window_mask(ops.shape(source_ids)[1], self.window)
            target_mask = target_mask & window_mask(target_length, self.window)
        return source_mask, target_mask, memory_mask

    def compute_output_spec(self, source_ids, target_ids):
        batch, source_length = source_ids.shape
        target_length = target_ids.shape[1]
        rows = 1 if self.window is None else source_length
        shapes = (
            (batch, 1, rows, source_length),
            (batch, 1, target_length, target_length),
            (batch, 1, 1, source_length),
        )
        return tuple(keras.KerasTensor(shape, dtype="bool") for shape in shapes)

    def get_config(self):
        return {**super().get_config(), "window": self.window}
