"""What a model says of given pairs: their log probability, and where it looks."""

from __future__ import annotations

import typing

import keras
import tensorflow as tf

from keras_transformer.decoding.ensemble import mean_log_probs
from keras_transformer.layers.masks import padding_mask
from keras_transformer.model import token_embedding


def score_pairs(models, source_ids, target_ids, target_out):
    """Log probability of given targets.

    Args:
        models: From `build_transformer`; or a list of several, whose probabilities are averaged.
        source_ids: int32 `[batch, source_length]`.
        target_ids: int32 `[batch, target_length]`, from the begin mark.
        target_out: int32 `[batch, target_length]`, to the end mark; 0 where it pads.

    Returns:
        float32 `[batch]`, the sum over the tokens, end mark included.

    Example:
        >>> score_pairs(model, [[5, 7, 3]], [[2, 6, 9]], [[6, 9, 3]])
    """
    models = models if isinstance(models, (list, tuple)) else [models]
    source_ids, target_ids, target_out = (
        tf.convert_to_tensor(ids, tf.int32) for ids in (source_ids, target_ids, target_out)
    )
    log_probs = mean_log_probs([m([source_ids, target_ids], training=False) for m in models])
    chosen = tf.gather(log_probs, target_out, batch_dims=2)
    return tf.reduce_sum(tf.where(padding_mask(target_out)[:, 0, 0], chosen, 0.0), axis=1)


class AttentionWeights(typing.NamedTuple):
    """Every layer's attention weights (figures 3 to 5), a list with an entry a layer.

    Attributes:
        encoder: float32 `[batch, heads, source_length, source_length]`.
        decoder: float32 `[batch, heads, target_length, target_length]`.
        memory: float32 `[batch, heads, target_length, source_length]`, from decoder to encoder.
    """

    encoder: list
    decoder: list
    memory: list


def attention_weights(model: keras.Model, source_ids, target_ids) -> AttentionWeights:
    """Where every position of a pair looks: row i, column j is how much of j position i takes.

    Args:
        model: From `build_transformer`.
        source_ids: int32 `[batch, source_length]`.
        target_ids: int32 `[batch, target_length]`, from the begin mark.

    Example:
        >>> weights = attention_weights(model, [[5, 7, 3]], [[2, 6, 9]])
        >>> weights.memory[-1].shape  # of the last layer
        TensorShape([1, 8, 3, 3])
    """
    source_ids, target_ids = (
        tf.convert_to_tensor(ids, tf.int32) for ids in (source_ids, target_ids)
    )
    source_mask, target_mask, memory_mask = model.get_layer("masks")(source_ids, target_ids)

    def embedded(ids, side):
        return model.get_layer(f"{side}_positions")(token_embedding(model, side)(ids))

    memory, encoder = model.get_layer("encoder")(
        embedded(source_ids, "source"), source_mask, return_weights=True
    )
    _, pairs = model.get_layer("decoder")(
        embedded(target_ids, "target"),
        memory,
        self_mask=target_mask,
        memory_mask=memory_mask,
        return_weights=True,
    )
    decoder, to_memory = (list(weights) for weights in zip(*pairs, strict=True))
    return AttentionWeights(encoder, decoder, to_memory)
