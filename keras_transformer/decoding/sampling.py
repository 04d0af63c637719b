"""One token at a time: the likeliest (greedy search), or drawn at random (sampling)."""

from __future__ import annotations

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
    done: tf.Tensor  # bool [batch, count]
    ids: tf.Tensor  # int32 [batch, count, positions], from the begin mark
    log_probs: tf.Tensor  # float32 [batch, count]
    lengths: tf.Tensor  # int32 [batch, count], end mark included
    past: typing.Any  # what the decoder keeps
    coverage: tf.Tensor  # float32 [batch, count, source_length or 0], attention given


def greedy_search(
    decoder, source_ids, config: DecodingConfig, prefix_ids=None, room: Room = GROWING
) -> Hypotheses:
    """Takes the likeliest token at each step: what a beam of one finds, at less cost.

    Args: see `beam_search`.

    Example:
        >>> best = greedy_search(IncrementalDecoder(model), source_ids, DecodingConfig())
    """

    def likeliest(log_probs, step, keys):
        return tf.argmax(log_probs, axis=-1, output_type=tf.int32)

    next_token = NextToken(decoder, source_ids, config, prefix_ids, room)
    return _token_by_token(next_token, decoder, config, 1, likeliest, (), room)


def sample(
    decoder,
    source_ids,
    config: DecodingConfig,
    count: int = 1,
    prefix_ids=None,
    room: Room = GROWING,
    seed=None,
) -> Hypotheses:
    """Draws each token from the model's distribution, or from a part of it.

    Args:
        decoder, source_ids, prefix_ids, room: See `beam_search`.
        config: The options; `temperature` is above 0.
        count: Samples a sentence, each drawn for itself: they may be equal.
        seed: int32 scalar, `config.seed` by default. What is drawn depends on it and on the
            sentence, and not on the others in the batch.

    Returns:
        The samples, the best first, scored by the model's own probabilities, whatever the
        temperature.

    Example:
        >>> config = DecodingConfig(temperature=0.8, top_p=0.95)
        >>> samples = sample(IncrementalDecoder(model), source_ids, config, count=5, seed=1)
    """
    if count < 1:
        raise ValueError(f"`count` should be at least 1. Received: count={count}.")
    next_token = NextToken(decoder, source_ids, config, prefix_ids, room)
    seed = tf.convert_to_tensor(config.seed if seed is None else seed, tf.int32)

    def drawn(log_probs, step, keys):
        return draw(log_probs, keys, step, config)

    keys = sample_keys(source_ids, count, seed)
    found = _token_by_token(next_token, decoder, config, count, drawn, keys, room)
    scores, order = tf.math.top_k(found.scores, count)
    ids, lengths = (tf.gather(part, order, batch_dims=1) for part in (found.ids, found.lengths))
    return Hypotheses(ids, lengths, scores)


def draw(log_probs, keys, step, config: DecodingConfig):
    """A token from each distribution, cut as `top_k` and `top_p` say.

    It is the largest of log P + a Gumbel number of each token's own (Gumbel 1954), which rounding
    hardly ever changes: with one number and sums of probabilities it would, from one batch size to
    another.

    Args:
        log_probs: float32 `[batch, count, vocab_size]`.
        keys: From `sample_keys`.
        step: int32 scalar; each draws by numbers of its own.
        config: The options.

    Returns:
        int32 `[batch, count]`.
    """
    vocab_size = log_probs.shape[-1]
    values = log_probs / config.temperature
    most = min(config.top_k or vocab_size, vocab_size)
    if most < vocab_size or config.top_p < 1:
        highest, _ = tf.math.top_k(values, most)
        sums = tf.cumsum(tf.nn.softmax(highest), axis=-1, exclusive=True)
        # The token that reaches top_p is kept.
        kept = tf.where(sums < config.top_p, highest, float("inf"))
        values = tf.where(
            values >= tf.reduce_min(kept, axis=-1, keepdims=True), values, -float("inf")
        )
    return tf.argmax(values + _gumbels(keys, step, vocab_size), axis=-1, output_type=tf.int32)


def sample_keys(source_ids, count: int, seed):
    """uint32 `[batch, count]`, what each sample draws by, of a seed and its sentence's own ids."""
    length = tf.shape(source_ids)[1]
    factors = tf.bitcast(_hash(_counted(length) + 1), tf.int32)
    sums = tf.reduce_sum(source_ids * factors, axis=1)  # (it wraps; padding adds nothing)
    keys = _hash(_hash(tf.bitcast(sums, tf.uint32)) + _hash(tf.bitcast(seed, tf.uint32)))
    # Each sample by its own number, so that one alone is the first of several.
    return keys[:, None] + _counted(count) * 0x3504F333


def _gumbels(keys, step, size: int):
    """float32 `[batch, count, size]`: Gumbel's distribution, by a hash of key, step and place."""
    keys = _hash(keys + _hash(tf.bitcast(step, tf.uint32)))
    bits = tf.bitwise.right_shift(_hash(keys[:, :, None] + _counted(size)), 9)
    uniform = (tf.cast(tf.bitcast(bits, tf.int32), tf.float32) + 0.5) * 2.0**-23  # never 0 or 1
    return -tf.math.log(-tf.math.log(uniform))


def _hash(x):
    """A uint32 for each, as if drawn: the same on all devices, which stateless_uniform is not.

    ("lowbias32" of C. Wellons' hash-prospector.)
    """
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, shift)) * factor
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, 16))


def _counted(count):
    """uint32 0, 1, ... `count` - 1."""
    return tf.bitcast(tf.range(count), tf.uint32)


def _token_by_token(next_token, decoder, config, count, choose, keys, room) -> Hypotheses:
    batch, limits = tf.shape(next_token.limits)[0], next_token.limits

    def advance(state: _State, context) -> _State:
        now, keys = next_token.of(context[0]), context[1]
        log_probs, past, attention = now.log_probs(state.ids, state.past, state.step)
        tokens = choose(log_probs, state.step, keys)
        step, going = state.step + 1, ~state.done
        chosen = tf.gather(log_probs, tokens, batch_dims=2)
        added = tf.where(going, tokens, PAD_ID)
        coverage = state.coverage
        if config.beta:
            coverage += tf.where(going[:, :, None], attention, 0.0)
        return _State(
            step=step,
            done=state.done | (tokens == END_ID) | (step >= now.limits)[:, None],
            ids=room.put(state.ids, added[:, :, None], step, 2),
            log_probs=state.log_probs + tf.where(going, chosen, 0.0),
            lengths=tf.where(going, step, state.lengths),
            past=past,
            coverage=coverage,
        )

    done = tf.repeat((limits == 0)[:, None], count, axis=1)
    start = _State(
        step=tf.constant(0),
        done=done,
        ids=next_token.begin(count),
        log_probs=tf.zeros((batch, count)),
        lengths=tf.zeros((batch, count), tf.int32),
        past=decoder.empty_past(batch, count, room),
        coverage=next_token.no_coverage(count),
    )

    def results(state: _State, context):
        scores = state.log_probs / length_penalty(state.lengths, config.alpha)
        if config.beta:
            penalty = coverage_penalty(
                state.coverage, next_token.of(context[0]).source_ids, config.beta
            )
            scores += tf.where(state.lengths > 0, penalty, 0.0)
        return state.ids, scores

    ids, scores = run(advance, start, (next_token.context, keys), results, room)
    return hypotheses_of(ids[:, :, 1:], scores)
