"""What a hypothesis must keep to: its length, forced tokens, no repetitions."""

from __future__ import annotations

import copy

import numpy as np
import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, DecodingConfig

_NEVER = -float("inf")


class Constraints:
    """The constraints of a batch of sentences.

    Args:
        config: The search options.
        source_ids: int32 `[batch, source_length]`, each with its end mark, 0 where they pad.
        prefix_ids: int32 `[batch, prefix_length]`, the tokens that each result begins with, 0 where
            they pad; or None.
        max_positions: Output tokens that the model can take at most; None for no limit.

    Attributes:
        limits: int32 `[batch]`, tokens at most, end mark included. 0 where there is nothing to
            translate: a row of padding alone, or with nothing before its end mark.
        max_steps: int32 scalar, the largest of them; 0 for no sentence at all.
    """

    def __init__(self, config: DecodingConfig, source_ids, prefix_ids=None, max_positions=None):
        self._config, self._prefix = config, None
        lengths = tf.math.count_nonzero(source_ids, axis=1, dtype=tf.int32)
        limits = lengths + config.extra_length
        if config.max_length is not None:
            limits = tf.minimum(limits, config.max_length)
        if prefix_ids is not None:  # a result holds its prefix at least
            limits = tf.maximum(limits, tf.math.count_nonzero(prefix_ids, axis=1, dtype=tf.int32))
            self._prefix = tf.pad(prefix_ids, ((0, 0), (0, 1)), constant_values=PAD_ID)
        if max_positions is not None:
            limits = tf.minimum(limits, max_positions)
        empty = tf.reduce_all((source_ids == PAD_ID) | (source_ids == END_ID), axis=1)
        self.limits = tf.where(empty, 0, limits)
        self.max_steps = tf.reduce_max(tf.pad(self.limits, [[0, 1]]))

    @property
    def of_sentences(self):
        """What it holds of each sentence: tensors `[batch, ...]`."""
        return (self.limits,) if self._prefix is None else (self.limits, self._prefix)

    def of(self, sentences) -> Constraints:
        """The same of other sentences: `of_sentences` with other rows."""
        other = copy.copy(self)
        other.limits, *prefix = sentences
        other._prefix = prefix[0] if prefix else None
        return other

    def apply(self, log_probs, ids, step):
        """The log probabilities of the next tokens, -inf where a token may not come.

        Args:
            log_probs: float32 `[batch, beam, vocab_size]`.
            ids: int32 `[batch, beam, positions]`, the tokens so far, from the begin mark.
            step: int32 scalar, their number without the mark.
        """
        vocab_size = log_probs.shape[-1]
        bans = _bans(vocab_size, PAD_ID, BEGIN_ID)  # they are no output
        if self._config.min_length:
            too_short = _bans(vocab_size, PAD_ID, BEGIN_ID, END_ID)
            is_short = tf.cast(step < self._config.min_length, tf.int32)
            bans = tf.gather(np.stack([bans, too_short]), is_short)  # quicker than to select
        free = log_probs + bans
        if self._config.no_repeat_ngram:
            free = without_repetition(free, ids[:, :, 1:], step, self._config.no_repeat_ngram)
        if self._prefix is None:
            return free
        last = tf.shape(self._prefix)[1] - 1
        forced = tf.gather(self._prefix, tf.minimum(step, last), axis=1)
        alone = tf.where(tf.one_hot(forced, vocab_size, True, False)[:, None], log_probs, _NEVER)
        return tf.where((forced == PAD_ID)[:, None, None], free, alone)


def _bans(vocab_size, *ids):
    """NumPy float32 `[vocab_size]`: -inf at `ids`, else 0."""
    bans = np.zeros(vocab_size, np.float32)
    bans[list(ids)] = _NEVER
    return bans


def without_repetition(log_probs, ids, length, n):
    """`log_probs` with -inf for the tokens that would complete an n-gram already in `ids`.

    Args:
        log_probs: float32 `[batch, beam, vocab_size]`.
        ids: int32 `[batch, beam, positions]`, without the begin mark.
        length: int32 scalar, tokens in `ids`; there may be room for more behind them.
        n: Tokens of an n-gram.
    """
    places = tf.maximum(tf.shape(ids)[2] - n + 1, 0)  # where an n-gram could have begun
    same = tf.ones_like(ids[:, :, :places], tf.bool) & (tf.range(places) <= length - n)
    newest = tf.pad(ids, ((0, 0), (0, 0), (n - 1, 0)))  # from `length` on: the n - 1 newest
    for i in range(n - 1):
        same &= ids[:, :, i : i + places] == tf.gather(newest, length + i, axis=2)[:, :, None]
    last = ids[:, :, n - 1 : n - 1 + places]
    batch, beam = tf.unstack(tf.shape(ids)[:2])
    rows = tf.broadcast_to(tf.range(batch * beam)[:, None], (batch * beam, places))
    indices = tf.stack([rows, tf.reshape(last, (batch * beam, places))], axis=-1)
    bans = tf.reshape(tf.where(same, _NEVER, float("inf")), (batch * beam, places))
    flat = tf.reshape(log_probs, (batch * beam, log_probs.shape[-1]))
    return tf.reshape(tf.tensor_scatter_nd_min(flat, indices, bans), tf.shape(log_probs))
