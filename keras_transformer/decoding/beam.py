"""Beam search with length penalty (paper section 6.1), in the graph.

At each step every sentence keeps its `beam_size` most probable hypotheses. Those that end, with
the end mark or at their sentence's length limit, compete for the result by
log P / ((5 + n) / 6)^alpha, n their own length; the others go on. A sentence is done when no
hypothesis that goes on can still reach the results. Nothing a sentence's neighbours in the batch
do has an influence.
"""

from __future__ import annotations

import typing

import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, DecodingConfig
from keras_transformer.decoding.hypotheses import (
    Hypotheses,
    coverage_penalty,
    hypotheses_of,
    length_penalty,
)
from keras_transformer.decoding.next_token import NextToken, growing


class _State(typing.NamedTuple):
    step: tf.Tensor  # int32 scalar, tokens so far
    done: tf.Tensor  # bool [batch]
    ids: tf.Tensor  # int32 [batch, beam, step + 1], of those that go on, from the begin mark
    log_probs: tf.Tensor  # float32 [batch, beam], of those; -inf where there is none
    ended_ids: tf.Tensor  # int32 [batch, beam, step + 1], of the best that ended
    scores: tf.Tensor  # float32 [batch, beam], of those; -inf where there is none
    past: list  # the decoder's keys and values, of those that go on
    coverage: tf.Tensor  # float32 [batch, beam, source_length or 0], attention that they gave


def beam_search(
    decoder, source_ids, config: DecodingConfig, n_best: int = 1, prefix_ids=None
) -> Hypotheses:
    """Searches the most probable target sequences.

    Args:
        decoder: An `IncrementalDecoder` or `EnsembleDecoder`.
        source_ids: int32 `[batch, source_length]`, each with its end mark, 0 where they pad. A row
            of padding alone, or with nothing before its end mark, gives an empty result of score 0.
        config: The options.
        n_best: Results a sentence, at most `config.beam_size`.
        prefix_ids: int32 `[batch, prefix_length]`, the tokens that each result begins with, 0 where
            they pad; or None.

    Returns:
        `n_best` different hypotheses a sentence.

    Raises:
        ValueError: `n_best` is out of range.

    Example:
        >>> best = beam_search(IncrementalDecoder(model), source_ids, DecodingConfig(beam_size=4))
    """
    beam_size, alpha, beta = config.beam_size, config.alpha, config.beta
    if not 1 <= n_best <= beam_size:
        raise ValueError(
            f"`n_best` should be at least 1 and at most beam_size={beam_size}. Received: "
            f"n_best={n_best}. Raise beam_size to get more."
        )
    batch = tf.shape(source_ids)[0]
    next_token = NextToken(decoder, source_ids, config, prefix_ids)
    limits = next_token.limits

    def is_running(state: _State):
        return ~tf.reduce_all(state.done)

    def advance(state: _State):
        log_probs, past, attention = next_token.log_probs(state.ids, state.past, state.step)
        vocab_size = log_probs.shape[-1]
        totals = tf.reshape(state.log_probs[:, :, None] + log_probs, (-1, beam_size * vocab_size))
        best, index = tf.math.top_k(totals, beam_size)
        beams, tokens = index // vocab_size, index % vocab_size
        ids = tf.concat([tf.gather(state.ids, beams, batch_dims=1), tokens[:, :, None]], axis=2)
        step = state.step + 1

        ends = (tokens == END_ID) | (step >= limits)[:, None]
        counts = ends & (best > -float("inf")) & ~state.done[:, None]
        scores, coverage = best / length_penalty(step, alpha), state.coverage
        if beta:
            coverage = tf.gather(coverage + attention, beams, batch_dims=1)
            scores += coverage_penalty(coverage, source_ids, beta)
        scores = tf.where(counts, scores, -float("inf"))
        scores, chosen = tf.math.top_k(tf.concat([state.scores, scores], 1), beam_size)
        before = tf.pad(state.ended_ids, ((0, 0), (0, 0), (0, 1)), constant_values=PAD_ID)
        ended_ids = tf.gather(tf.concat([before, ids], 1), chosen, batch_dims=1)

        # log P only falls, the length penalty is largest at the limit, and the coverage penalty is
        # never above 0: no one does better than this.
        going = tf.where(ends | state.done[:, None], -float("inf"), best)
        bound = tf.reduce_max(going, axis=1) / length_penalty(limits, alpha)
        done = state.done | (scores[:, n_best - 1] >= bound)
        going = tf.where(done[:, None], -float("inf"), going)
        rows = tf.reshape(beams + tf.range(batch)[:, None] * beam_size, (-1,))
        past = decoder.reorder(past, rows)
        return (_State(step, done, ids, going, ended_ids, scores, past, coverage),)

    one_alive = tf.constant([[0.0] + [-float("inf")] * (beam_size - 1)])
    none_ended = tf.constant([[-float("inf")] * beam_size])
    empty = limits == 0
    start = _State(
        step=tf.constant(0),
        done=empty,
        ids=tf.fill((batch, beam_size, 1), BEGIN_ID),
        log_probs=tf.tile(one_alive, (batch, 1)),
        ended_ids=tf.fill((batch, beam_size, 1), PAD_ID),
        scores=tf.where(empty[:, None], one_alive, tf.tile(none_ended, (batch, 1))),
        past=decoder.empty_past(batch * beam_size),
        coverage=next_token.no_coverage(beam_size),
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
        past=growing(start.past),
        coverage=grows,
    )
    (end,) = tf.while_loop(is_running, advance, (start,), (invariants,))
    return hypotheses_of(end.ended_ids[:, :n_best, 1:], end.scores[:, :n_best])
