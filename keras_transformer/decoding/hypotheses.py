"""What a search gives, and how its results are scored (paper section 6.1)."""

from __future__ import annotations

import typing

import tensorflow as tf

from keras_transformer.config import END_ID, PAD_ID


class Hypotheses(typing.NamedTuple):
    """The results of a search, best first.

    Attributes:
        ids: int32 `[batch, n_best, length]`, without begin and end marks, 0 where they pad.
        lengths: int32 `[batch, n_best]`, tokens in `ids`.
        scores: float32 `[batch, n_best]`, penalised log probabilities, end mark included; -inf
            where the search found fewer hypotheses.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    scores: tf.Tensor


def length_penalty(length, alpha):
    """((5 + length) / 6)^alpha (Wu et al. 2016, equation 14), float32."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def coverage_penalty(coverage, source_ids, beta):
    """beta * sum_i log(min(sum_j p_ij, 1)) (Wu et al. 2016, equation 14).

    Args:
        coverage: float32 `[batch, beam, source_length]`, the attention each source token got.
        source_ids: int32 `[batch, source_length]`, 0 where they pad.
        beta: Its weight.

    Returns:
        float32 `[batch, beam]`, at most 0.
    """
    short = tf.math.log(tf.clip_by_value(coverage, 1e-10, 1.0))
    return beta * tf.reduce_sum(tf.where((source_ids != PAD_ID)[:, None], short, 0.0), axis=-1)


def hypotheses_of(ids, scores) -> Hypotheses:
    """The results from int32 `[batch, n_best, length]`, end marks and all that follows included."""
    ids = tf.where(ids == END_ID, PAD_ID, ids)  # the only end mark is the last token
    return Hypotheses(ids, tf.math.count_nonzero(ids, axis=2, dtype=tf.int32), scores)
