"""Samples follow the model's distribution; they depend on the seed and the sentence alone."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, DecodingConfig
from keras_transformer.decoding.incremental import IncrementalDecoder
from keras_transformer.decoding.sampling import draw, greedy_search, sample, sample_keys
from keras_transformer.decoding.scoring import score_pairs

PROBABILITIES = np.array([0.05, 0.4, 0.25, 0.1, 0.2])
LOG_PROBS = tf.constant(np.log(PROBABILITIES)[None, None], tf.float32)
SOURCE = np.array([[4, 3, 0, 0], [5, 1, 3, 0], [4, 3, 0, 0], [0, 0, 0, 0]], np.int32)


def frequencies(**options):
    """How often each token is drawn by 40,000 samples."""
    config = DecodingConfig(**{"temperature": 1.0, **options})
    keys = sample_keys(tf.constant([[4, 3]]), 40_000, tf.constant(0))
    tokens = draw(tf.repeat(LOG_PROBS, keys.shape[1], axis=1), keys, tf.constant(0), config)
    return np.bincount(tokens.numpy()[0], minlength=5) / keys.shape[1]


def kept(*tokens):
    """The distribution cut to some tokens."""
    cut = np.where(np.isin(np.arange(5), tokens), PROBABILITIES, 0.0)
    return cut / cut.sum()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, PROBABILITIES),
        ({"temperature": 2.0}, PROBABILITIES**0.5 / (PROBABILITIES**0.5).sum()),
        ({"temperature": 0.25}, PROBABILITIES**4 / (PROBABILITIES**4).sum()),
        ({"top_k": 2}, kept(1, 2)),
        ({"top_k": 99}, PROBABILITIES),
        ({"top_p": 0.3}, kept(1)),
        ({"top_p": 0.6}, kept(1, 2)),
        ({"top_p": 0.7}, kept(1, 2, 4)),
        ({"top_k": 2, "top_p": 0.99}, kept(1, 2)),
        ({"top_p": 1e-6}, kept(1)),
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_their_probability_says(options, expected):
    found = frequencies(**options)
    np.testing.assert_array_equal(found > 0, expected > 0)
    deviation = np.sqrt(expected * (1 - expected) / 40_000)
    assert np.all(np.abs(found - expected) <= 4 * deviation)


def test_each_seed_step_sentence_and_sample_draws_by_numbers_of_its_own():
    flat, config = tf.zeros((3, 5, 1000)), DecodingConfig(temperature=1.0)
    sentences = tf.constant([[4, 3], [3, 4], [5, 3]])
    drawn = np.array(
        [
            [
                draw(flat, sample_keys(sentences, 5, tf.constant(seed)), tf.constant(step), config)
                for step in range(5)
            ]
            for seed in range(5)
        ]
    )  # [seed, step, sentence, sample]
    assert 280 < len(np.unique(drawn)) < 345  # of 375 draws among 1,000 tokens, as chance has it
    for axis in range(4):  # along each, hardly any twice
        rows = np.moveaxis(drawn, axis, -1).reshape(-1, drawn.shape[axis])
        assert np.mean([len(set(row)) == len(row) for row in rows]) > 0.9


def test_rounding_does_not_change_what_is_drawn():
    rng = np.random.default_rng(0)
    log_probs = np.log(rng.dirichlet(np.full(8000, 0.05), size=(1, 300)) + 1e-9).astype(np.float32)
    noise = rng.uniform(-3e-6, 3e-6, log_probs.shape).astype(np.float32)
    keys = sample_keys(tf.constant([[7, 9, 3]]), 300, tf.constant(1))
    for options in ({}, {"top_k": 50}, {"top_p": 0.9}):
        config = DecodingConfig(temperature=1.0, **options)
        one, other = (
            draw(tf.constant(values), keys, tf.constant(2), config)
            for values in (log_probs, log_probs + noise)
        )
        np.testing.assert_array_equal(one, other)


def test_a_token_that_may_not_come_is_never_drawn():
    banned = tf.where([[[True, True, False, True, True]]], -np.inf, LOG_PROBS)
    keys = sample_keys(tf.constant([[4, 3]]), 1000, tf.constant(0))
    for options in ({}, {"top_k": 3}, {"top_p": 0.9}):
        config = DecodingConfig(temperature=1.0, **options)
        drawn = draw(tf.repeat(banned, 1000, axis=1), keys, tf.constant(0), config)
        assert set(drawn.numpy().ravel()) == {2}


def samples(model, source, count=4, seed=0, **options):
    config = DecodingConfig(**{"temperature": 1.0, "extra_length": 4, **options})
    return sample(IncrementalDecoder(model), tf.constant(source), config, count, seed=seed)


def test_samples_follow_the_models_distribution(make_model):
    """The share of each first token among 4,000 samples; three standard deviations at most."""
    model = make_model(1, vocab_size=9)
    found = samples(model, SOURCE[:1], count=4000, extra_length=1)
    first = np.where(found.lengths[0] > 0, found.ids[0, :, 0], END_ID)
    logits = model([SOURCE[:1], np.array([[BEGIN_ID]])])[0, 0].numpy().astype(np.float64)
    logits[[0, BEGIN_ID]] = -np.inf
    expected = np.exp(logits) / np.exp(model([SOURCE[:1], np.array([[BEGIN_ID]])])[0, 0]).sum()
    expected /= expected.sum()
    share = np.bincount(first, minlength=9) / 4000
    deviation = np.sqrt(expected * (1 - expected) / 4000)
    assert np.all(np.abs(share - expected) <= 4 * deviation + 1e-9)


def test_samples_are_sorted_and_scored_by_the_models_own_probabilities(make_model):
    model = make_model(2, vocab_size=9)
    found = samples(model, SOURCE, temperature=1.5, alpha=0.6)
    for row in (0, 1):
        scores = found.scores[row].numpy()
        assert list(scores) == sorted(scores, reverse=True)
        limit = np.count_nonzero(SOURCE[row]) + 4
        for ids, length, score in zip(found.ids[row], found.lengths[row], scores, strict=True):
            out = ids.numpy()[: int(length)].tolist()
            out = np.array([out if len(out) == limit else [*out, END_ID]], np.int32)
            log_p = score_pairs(
                model, SOURCE[row : row + 1], np.insert(out[:, :-1], 0, BEGIN_ID, 1), out
            )
            penalty = ((5 + out.shape[1]) / 6) ** 0.6
            np.testing.assert_allclose(score, log_p[0] / penalty, rtol=1e-4)
    assert not found.ids[3].numpy().any() and not found.scores[3].numpy().any()


def test_what_is_drawn_depends_on_the_seed_and_the_sentence_and_not_on_the_batch(make_model):
    model = make_model(2, vocab_size=20, d_model=16)
    found = samples(model, SOURCE)
    again, other = samples(model, SOURCE), samples(model, SOURCE, seed=1)
    np.testing.assert_array_equal(found.ids, again.ids)
    assert not np.array_equal(found.ids, other.ids)
    np.testing.assert_array_equal(found.ids[0], found.ids[2])  # the same sentence
    assert len({tuple(ids) for ids in found.ids[1].numpy()}) > 1  # samples of one sentence differ
    neighbour = np.array([[7, 8, 9, 10, 11, 12, 13, 14, 15, 3]], np.int32)
    batch = np.concatenate([neighbour, np.pad(SOURCE[1:2], ((0, 0), (0, 6)))])
    together, alone = samples(model, batch), samples(model, SOURCE[1:2, :3])
    np.testing.assert_allclose(together.scores[1], alone.scores[0], rtol=1e-5)
    width = alone.ids.shape[2]
    np.testing.assert_array_equal(together.ids[1, :, :width], alone.ids[0])


def test_one_sample_is_the_first_of_several(make_model):
    decoder = IncrementalDecoder(make_model())
    source = tf.constant([[4, 3, 0, 0], [5, 1, 3, 0], [0, 0, 0, 0], [1, 5, 4, 3]])
    config = DecodingConfig(temperature=1.0, extra_length=8)
    one, several = (sample(decoder, source, config, count, seed=3) for count in (1, 6))
    for alone, drawn in zip(one.ids.numpy(), several.ids.numpy(), strict=True):
        width = max(alone.shape[1], drawn.shape[1])
        alone, drawn = (np.pad(x, ((0, 0), (0, width - x.shape[1]))) for x in (alone, drawn))
        assert (drawn == alone[0]).all(axis=1).any()


def test_no_sentence_gives_no_sample(make_model):
    assert samples(make_model(), SOURCE[:0]).ids.shape[:2] == (0, 4)


def test_a_cold_sample_is_the_greedy_result(make_model):
    model = make_model(2, vocab_size=9)
    cold = samples(model, SOURCE, count=1, temperature=0.001)
    greedy = greedy_search(
        IncrementalDecoder(model), tf.constant(SOURCE), DecodingConfig(extra_length=4)
    )
    np.testing.assert_array_equal(cold.ids, greedy.ids)
    np.testing.assert_allclose(cold.scores, greedy.scores, rtol=1e-5)


def test_no_sample_at_all_is_an_error(make_model):
    with pytest.raises(ValueError, match="`count` should be at least 1. Received: count=0"):
        samples(make_model(), SOURCE, count=0)
