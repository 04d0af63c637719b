"""Beam search with length penalty (paper section 6.1), in the graph; greedy is a beam of one.

At each step every sentence keeps its `beam_size` most probable hypotheses. Those that end, with
the end mark or at their sentence's length limit, compete for the result by
log P / ((5 + n) / 6)^alpha, n their own length; the others go on. A sentence is done when no
hypothesis that goes on can still reach the results. Nothing a sentence's neighbours in the batch
do has an influence.
"""

from __future__ import annotations

import typing

import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID
from keras_transformer.decoding.incremental import IncrementalDecoder


class Hypotheses(typing.NamedTuple):
    """The results of a search, best first.

    Attributes:
        ids: int32 `[batch, n_best, length]`, without begin and end marks, 0 where they pad.
        lengths: int32 `[batch, n_best]`, tokens in `ids`.
        scores: float32 `[batch, n_best]`, length-penalised log probabilities, end mark included;
            -inf where the search found fewer hypotheses.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    scores: tf.Tensor


class _State(typing.NamedTuple):
    step: tf.Tensor  # int32 scalar, tokens so far
    done: tf.Tensor  # bool [batch]
    ids: tf.Tensor  # int32 [batch, beam, step + 1], of those that go on, from the begin mark
    log_probs: tf.Tensor  # float32 [batch, beam], of those; -inf where there is none
    ended_ids: tf.Tensor  # int32 [batch, beam, step + 1], of the best that ended
    scores: tf.Tensor  # float32 [batch, beam], of those; -inf where there is none
    past: list  # the decoder's keys and values, of those that go on


def length_penalty(length, alpha):
    """((5 + length) / 6)^alpha (Wu et al. 2016, equation 14), float32."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def beam_search(
    decoder: IncrementalDecoder,
    source_ids,
    beam_size: int = 4,
    alpha: float = 0.6,
    extra_length: int = 50,
    n_best: int = 1,
) -> Hypotheses:
    """Searches the most probable target sequences.

    Args:
        decoder: The model.
        source_ids: int32 `[batch, source_length]`, each with its end mark, 0 where they pad. A row
            of padding alone, or with nothing before its end mark, gives an empty result of score 0.
        beam_size: Hypotheses kept a sentence.
        alpha: Exponent of the length penalty.
        extra_length: A result has at most so many tokens more than its own source, end mark
            included on either side.
        n_best: Results a sentence, at most `beam_size`.

    Returns:
        `n_best` different hypotheses a sentence.

    Raises:
        ValueError: `beam_size`, `alpha`, `extra_length` or `n_best` is out of range.

    Example:
        >>> best = beam_search(IncrementalDecoder(model), source_ids, beam_size=4)
    """
    check_search(beam_size, alpha, extra_length, n_best)
    batch = tf.shape(source_ids)[0]
    source_lengths = tf.math.count_nonzero(source_ids, axis=1, dtype=tf.int32)
    empty = tf.reduce_all((source_ids == PAD_ID) | (source_ids == END_ID), axis=1)
    limits = tf.where(empty, 0, source_lengths + extra_length)
    memory = decoder.encode(source_ids)

    def is_running(state: _State):
        return ~tf.reduce_all(state.done)

    def advance(state: _State):
        logits, past = decoder.step(state.ids[:, :, -1], state.past, memory, state.step)
        log_probs = tf.nn.log_softmax(logits) + _never(logits.shape[-1])
        totals = state.log_probs[:, :, None] + log_probs
        vocab_size = tf.shape(logits)[-1]
        best, index = tf.math.top_k(tf.reshape(totals, (batch, beam_size * vocab_size)), beam_size)
        beams, tokens = index // vocab_size, index % vocab_size
        ids = tf.concat([tf.gather(state.ids, beams, batch_dims=1), tokens[:, :, None]], axis=2)
        step = state.step + 1

        ends = (tokens == END_ID) | (step >= limits)[:, None]
        counts = ends & (best > -float("inf")) & ~state.done[:, None]
        new_scores = tf.where(counts, best / length_penalty(step, alpha), -float("inf"))
        scores, chosen = tf.math.top_k(tf.concat([state.scores, new_scores], 1), beam_size)
        before = tf.pad(state.ended_ids, ((0, 0), (0, 0), (0, 1)), constant_values=PAD_ID)
        ended_ids = tf.gather(tf.concat([before, ids], 1), chosen, batch_dims=1)

        # log P only falls, and the penalty is largest at the limit: no one does better than this.
        going = tf.where(ends | state.done[:, None], -float("inf"), best)
        bound = tf.reduce_max(going, axis=1) / length_penalty(limits, alpha)
        done = state.done | (scores[:, n_best - 1] >= bound)
        going = tf.where(done[:, None], -float("inf"), going)
        rows = tf.reshape(beams + tf.range(batch)[:, None] * beam_size, (-1,))
        return (_State(step, done, ids, going, ended_ids, scores, decoder.reorder(past, rows)),)

    one_alive = tf.constant([[0.0] + [-float("inf")] * (beam_size - 1)])
    none_ended = tf.constant([[-float("inf")] * beam_size])
    start = _State(
        step=tf.constant(0),
        done=empty,
        ids=tf.fill((batch, beam_size, 1), BEGIN_ID),
        log_probs=tf.tile(one_alive, (batch, 1)),
        ended_ids=tf.fill((batch, beam_size, 1), PAD_ID),
        scores=tf.where(empty[:, None], one_alive, tf.tile(none_ended, (batch, 1))),
        past=decoder.empty_past(batch * beam_size),
    )
    grows = tf.TensorShape([None, beam_size, None])
    fixed = tf.TensorShape([None, beam_size])
    invariants = _State(
        step=tf.TensorShape([]),
        done=tf.TensorShape([None]),
        ids=grows,
        log_probs=fixed,
        ended_ids=grows,
        scores=fixed,
        past=tf.nest.map_structure(
            lambda t: tf.TensorShape([None, t.shape[1], None, t.shape[3]]), start.past
        ),
    )
    (end,) = tf.while_loop(is_running, advance, (start,), shape_invariants=(invariants,))
    return _results(end, n_best)


def check_search(beam_size, alpha, extra_length, n_best):
    """Raises ValueError where a search's options are out of range."""
    for name, value, least in (
        ("beam_size", beam_size, 1),
        ("alpha", alpha, 0),
        ("extra_length", extra_length, 1),
        ("n_best", n_best, 1),
    ):
        if value == float("inf"):
            raise ValueError(f"`{name}` should be finite. Received: {name}={value}.")
        if not value >= least:  # so said, NaN is out of range too
            raise ValueError(f"`{name}` should be at least {least}. Received: {name}={value}.")
    if n_best > beam_size:
        raise ValueError(
            f"`n_best` should be at most beam_size={beam_size}. Received: n_best={n_best}. "
            "Raise beam_size to get more."
        )


def _never(vocab_size):
    """float32 `[vocab_size]`: -inf for the padding and begin ids, which are no output; else 0."""
    never = tf.one_hot([PAD_ID, BEGIN_ID], vocab_size, on_value=True, off_value=False)
    return tf.where(tf.reduce_any(never, axis=0), -float("inf"), 0.0)


def _results(end: _State, n_best: int) -> Hypotheses:
    ids = end.ended_ids[:, :n_best, 1:]
    ids = tf.where(ids == END_ID, PAD_ID, ids)  # the only end mark is the last token
    lengths = tf.math.count_nonzero(ids, axis=2, dtype=tf.int32)
    return Hypotheses(ids, lengths, end.scores[:, :n_best])
