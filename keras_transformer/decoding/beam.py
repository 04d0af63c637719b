"""Beam search with length penalty (paper section 6.1), in the graph.

At each step every sentence keeps its `beam_size` most probable hypotheses. Those that end, with
the end mark or at their sentence's length limit, compete for the result by
log P / ((5 + n) / 6)^alpha, n their own length; the others go on. A sentence is done when no
hypothesis that goes on can still reach the results: with a large alpha that is long after the best
is found, and `patience` (Kasai et al. 2022) stops once that many times `beam_size` hypotheses have
ended. Nothing a sentence's neighbours in the batch do has an influence.
"""

from __future__ import annotations

import math
import typing

import tensorflow as tf

from keras_transformer.config import END_ID, PAD_ID, DecodingConfig
from keras_transformer.decoding.hypotheses import (
    Hypotheses,
    coverage_penalty,
    hypotheses_of,
    length_penalty,
)
from keras_transformer.decoding.loop import run
from keras_transformer.decoding.next_token import NextToken
from keras_transformer.decoding.room import GROWING, Room


class _State(typing.NamedTuple):
    step: tf.Tensor  # int32 scalar, tokens so far
    done: tf.Tensor  # bool [batch]
    ids: tf.Tensor  # int32 [batch, beam, positions], of those that go on, from the begin mark
    log_probs: tf.Tensor  # float32 [batch, beam], of those; -inf where there is none
    ended_ids: tf.Tensor  # int32 [batch, beam, positions], of the best that ended
    scores: tf.Tensor  # float32 [batch, beam], of those; -inf where there is none
    ended: tf.Tensor  # int32 [batch], how many ended
    past: typing.Any  # what the decoder keeps, of those that go on
    coverage: tf.Tensor  # float32 [batch, beam, source_length or 0], attention that they gave


def beam_search(
    decoder,
    source_ids,
    config: DecodingConfig,
    n_best: int = 1,
    prefix_ids=None,
    room: Room = GROWING,
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
        room: For what is kept of each position; with XLA, of as many as a result may have tokens.

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
    next_token = NextToken(decoder, source_ids, config, prefix_ids, room)

    def advance(state: _State, context) -> _State:
        now = next_token.of(context)
        limits = now.limits
        log_probs, past, attention = now.log_probs(state.ids, state.past, state.step)
        vocab_size = log_probs.shape[-1]
        totals = tf.reshape(state.log_probs[:, :, None] + log_probs, (-1, beam_size * vocab_size))
        best, index = top_k(totals, beam_size)
        beams, tokens = index // vocab_size, index % vocab_size
        step = state.step + 1
        ids = tf.gather(state.ids, beams, batch_dims=1)
        ids = room.put(ids, tokens[:, :, None], step, 2)

        ends = (tokens == END_ID) | (step >= limits)[:, None]
        counts = ends & (best > -float("inf")) & ~state.done[:, None]
        scores, coverage = best / length_penalty(step, alpha), state.coverage
        if beta:
            coverage = tf.gather(coverage + attention, beams, batch_dims=1)
            scores += coverage_penalty(coverage, now.source_ids, beta)
        scores = tf.where(counts, scores, -float("inf"))
        scores, chosen = tf.math.top_k(tf.concat([state.scores, scores], 1), beam_size)
        nothing = tf.fill((tf.shape(limits)[0], beam_size, 1), PAD_ID)
        before = room.put(state.ended_ids, nothing, step, 2)
        ended_ids = tf.gather(tf.concat([before, ids], 1), chosen, batch_dims=1)

        # log P only falls, the length penalty is largest at the limit, and the coverage penalty is
        # never above 0: no one does better than this.
        going = tf.where(ends | state.done[:, None], -float("inf"), best)
        bound = tf.reduce_max(going, axis=1) / length_penalty(limits, alpha)
        done = state.done | (scores[:, n_best - 1] >= bound)
        ended = state.ended
        if config.patience is not None:
            ended += tf.math.count_nonzero(counts, axis=1, dtype=tf.int32)
            done |= ended >= math.ceil(round(config.patience * beam_size, 6))
        going = tf.where(done[:, None], -float("inf"), going)
        past = decoder.reorder(past, beams)
        return _State(step, done, ids, going, ended_ids, scores, ended, past, coverage)

    one_alive = tf.constant([[0.0] + [-float("inf")] * (beam_size - 1)])
    none_ended = tf.constant([[-float("inf")] * beam_size])
    empty = next_token.limits == 0
    start = _State(
        step=tf.constant(0),
        done=empty,
        ids=next_token.begin(beam_size),
        log_probs=tf.tile(one_alive, (batch, 1)),
        ended_ids=tf.zeros_like(next_token.begin(beam_size)),
        scores=tf.where(empty[:, None], one_alive, tf.tile(none_ended, (batch, 1))),
        ended=tf.zeros_like(next_token.limits),
        past=decoder.empty_past(batch, beam_size, room),
        coverage=next_token.no_coverage(beam_size),
    )

    def results(state: _State, context):
        return state.ended_ids[:, :n_best], state.scores[:, :n_best]

    ids, scores = run(advance, start, next_token.context, results, room)
    return hypotheses_of(ids[:, :, 1:], scores)


def top_k(values, k: int):
    """As `tf.math.top_k`, quicker on long rows: it looks at the best blocks alone.

    Args:
        values: float32 `[batch, length]`.
        k: How many.
    """
    length = values.shape[-1]
    block = 64
    if length < 8 * k * block:
        return tf.math.top_k(values, k)
    values = tf.pad(values, ((0, 0), (0, -length % block)), constant_values=-float("inf"))
    blocks = tf.reshape(values, (-1, values.shape[-1] // block, block))
    # The k best lie in the k blocks whose best are highest; in order, so that of equals the first
    # is taken.
    _, chosen = tf.math.top_k(tf.reduce_max(blocks, axis=2), k)
    chosen = tf.sort(chosen, axis=1)
    inside = tf.reshape(tf.gather(blocks, chosen, batch_dims=1), (-1, k * block))
    best, place = tf.math.top_k(inside, k)
    return best, tf.gather(chosen, place // block, batch_dims=1) * block + place % block
