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

    def likeliest(log_probs, step, numbers):
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
    numbers=None,
) -> Hypotheses:
    """Draws each token from the model's distribution, or from a part of it.

    Args:
        decoder, source_ids, prefix_ids, room: See `beam_search`.
        config: The options; `temperature` is above 0.
        count: Samples a sentence, each drawn for itself: they may be equal.
        seed: int32 scalar, `config.seed` by default. What is drawn depends on it and on the
            sentence, and not on the others in the batch.
        numbers: From `uniform_numbers`, in place of a seed: XLA would draw others.

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
    if numbers is None:
        seed = tf.convert_to_tensor(config.seed if seed is None else seed, tf.int32)
        numbers = uniform_numbers(source_ids, next_token.max_steps, count, seed)

    def drawn(log_probs, step, numbers):
        return draw(log_probs, tf.gather(numbers, step, axis=1), config)

    found = _token_by_token(next_token, decoder, config, count, drawn, numbers, room)
    scores, order = tf.math.top_k(found.scores, count)
    ids, lengths = (tf.gather(part, order, batch_dims=1) for part in (found.ids, found.lengths))
    return Hypotheses(ids, lengths, scores)


def draw(log_probs, numbers, config: DecodingConfig):
    """A token from each distribution, cut as `top_k` and `top_p` say.

    Args:
        log_probs: float32 `[batch, count, vocab_size]`.
        numbers: float32 `[batch, count]`, uniform from 0 to below 1.
        config: The options.

    Returns:
        int32 `[batch, count]`.
    """
    vocab_size = log_probs.shape[-1]
    most = min(config.top_k or vocab_size, vocab_size)
    values, tokens = tf.math.top_k(log_probs / config.temperature, most)
    sums = tf.cumsum(tf.nn.softmax(values), axis=-1)
    before = tf.pad(sums[..., :-1], ((0, 0), (0, 0), (1, 0)))
    sums = tf.where(before < config.top_p, sums, 0.0)  # the token that reaches top_p is kept
    wanted = numbers[..., None] * tf.reduce_max(sums, axis=-1, keepdims=True)
    place = tf.argmax(tf.cast(sums > wanted, tf.int32), axis=-1)  # the first such
    return tf.gather(tokens, place, batch_dims=2)


def uniform_numbers(source_ids, steps, count: int, seed):
    """float32 `[batch, steps, count]` from 0 to below 1, by a seed and each sentence's own ids."""
    length = tf.shape(source_ids)[1]
    factors = tf.random.stateless_uniform([length], [0, 0], None, None, tf.int32)
    keys = tf.reduce_sum(source_ids * factors, axis=1)  # (it wraps; padding adds nothing)
    # Each sample by its own number, so that one alone is the first of several.
    keys = tf.reshape(keys[:, None] + tf.range(count) * 0x3504F333, (-1,))
    numbers = tf.map_fn(
        lambda key: tf.random.stateless_uniform([steps], tf.stack([seed, key])),
        tf.pad(keys, [[0, 1]]),  # (over no sentence at all it would not know the shape)
        fn_output_signature=tf.float32,
    )
    numbers = tf.reshape(numbers[:-1], (tf.shape(source_ids)[0], count, steps))
    return tf.transpose(numbers, (0, 2, 1))


def _token_by_token(next_token, decoder, config, count, choose, numbers, room) -> Hypotheses:
    batch, limits = tf.shape(next_token.limits)[0], next_token.limits

    def advance(state: _State, context) -> _State:
        now, numbers = next_token.of(context[0]), context[1]
        log_probs, past, attention = now.log_probs(state.ids, state.past, state.step)
        tokens = choose(log_probs, state.step, numbers)
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

    ids, scores = run(advance, start, (next_token.context, numbers), results, room)
    return hypotheses_of(ids[:, :, 1:], scores)
