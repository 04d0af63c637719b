"""Lengths, forced tokens and repetitions, by beam search, greedy search and sampling alike."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, DecodingConfig
from keras_transformer.decoding.beam import beam_search
from keras_transformer.decoding.constraints import Constraints, without_repetition
from keras_transformer.decoding.incremental import IncrementalDecoder
from keras_transformer.decoding.sampling import greedy_search, sample
from keras_transformer.decoding.scoring import score_pairs

SOURCE = np.array([[4, 3, 0, 0], [5, 1, 3, 0], [0, 0, 0, 0], [1, 5, 4, 3]], np.int32)
REAL = (0, 1, 3)  # rows with something to translate
WAYS = pytest.mark.parametrize("way", ["greedy", "beam", "sample"])


def run(way, model, source, prefix_ids=None, **options):
    decoder = IncrementalDecoder(model)
    config = DecodingConfig(temperature=1.0 if way == "sample" else 0.0, **options)
    source = tf.constant(source)
    if way == "greedy":
        return greedy_search(decoder, source, config, prefix_ids)
    if way == "sample":
        return sample(decoder, source, config, 3, prefix_ids)
    return beam_search(decoder, source, config, 3, prefix_ids)


def outputs(found, row):
    lengths = found.lengths.numpy()[row]
    return [
        tuple(ids[:length]) for ids, length in zip(found.ids.numpy()[row], lengths, strict=True)
    ]


@WAYS
def test_no_result_is_shorter_than_the_minimum_or_longer_than_the_maximum(make_model, way):
    model = make_model(4, vocab_size=9)
    free = run(way, model, SOURCE, extra_length=9)
    found = run(way, model, SOURCE, extra_length=9, min_length=4, max_length=6)
    for row in REAL:
        assert all(4 <= len(ids) <= 6 for ids in outputs(found, row))
    lengths = [len(ids) for row in REAL for ids in outputs(free, row)]
    assert min(lengths) < 4 or max(lengths) > 6  # without them it would be otherwise
    assert outputs(found, 2)[0] == ()  # nothing stays nothing


@WAYS
def test_results_begin_with_their_prefix_and_are_scored_with_it(make_model, way):
    model = make_model(3, vocab_size=9)
    prefix = np.array([[6, 4, 8], [6, 0, 0], [5, 5, 0], [0, 0, 0]], np.int32)
    found = run(way, model, SOURCE, tf.constant(prefix), extra_length=3, alpha=0.0)
    for row in REAL:
        forced = tuple(prefix[row][prefix[row] != PAD_ID])
        limit = np.count_nonzero(SOURCE[row]) + 3
        for ids, score in zip(outputs(found, row), found.scores.numpy()[row], strict=True):
            assert ids[: len(forced)] == forced
            out = np.array([ids if len(ids) == limit else (*ids, END_ID)], np.int32)
            target_in = np.insert(out[:, :-1], 0, BEGIN_ID, axis=1)
            expected = score_pairs(model, SOURCE[row : row + 1], target_in, out)
            np.testing.assert_allclose(score, expected[0], rtol=1e-4)
    free = run(way, model, SOURCE, extra_length=3, alpha=0.0)
    assert outputs(found, 3) == outputs(free, 3)  # no prefix, no influence
    assert outputs(found, 0) != outputs(free, 0)


@WAYS
def test_a_prefix_longer_than_the_limit_is_the_result(make_model, way):
    prefix = tf.constant([[8, 7, 8, 7, 6, 5, 4, 4]])
    found = run(way, make_model(3, vocab_size=9), SOURCE[:1], prefix, extra_length=1)
    assert outputs(found, 0)[0] == (8, 7, 8, 7, 6, 5, 4, 4)


def repeats(ids, n):
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(grams) > len(set(grams))


@WAYS
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_comes_twice(steered, way, n):
    """The model would say 4 and 5 and little else to the end of the line."""
    model = steered({4: 6.0, 5: 4.0, END_ID: -20.0})
    found = run(way, model, SOURCE, extra_length=6, no_repeat_ngram=n)
    free = run(way, model, SOURCE, extra_length=6)
    for row in REAL:
        # With three tokens and n = 1 nothing is left to say after three but to end.
        assert not any(repeats(ids, n) for ids in outputs(found, row))
        assert all(repeats(ids, n) for ids in outputs(free, row))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_exactly_the_tokens_that_complete_an_ngram_again_are_banned(n):
    rng = np.random.default_rng(n)
    for length in range(7):
        ids = rng.integers(1, 4, (2, 3, length), dtype=np.int32)
        log_probs, length_ = tf.zeros((2, 3, 5)), tf.constant(length)
        found = without_repetition(log_probs, tf.constant(ids), length_, n)
        with_room = np.pad(ids, ((0, 0), (0, 0), (0, 4)), constant_values=3)
        also = without_repetition(log_probs, tf.constant(with_room), length_, n)
        np.testing.assert_array_equal(also, found)
        for (row, beam), token in itertools.product(np.ndindex(2, 3), range(5)):
            said = ids[row, beam].tolist()
            there = {tuple(said[i : i + n]) for i in range(length - n + 1)}
            again = length >= n - 1 and (*said[length - n + 1 :], token) in there
            assert found[row, beam, token] == (-np.inf if again else 0.0)


def test_a_learned_table_of_positions_is_never_outrun(make_model):
    model = make_model(positions="learned", max_positions=5)
    most = IncrementalDecoder(model).max_positions
    limits = Constraints(DecodingConfig(), tf.constant(SOURCE), None, most).limits
    np.testing.assert_array_equal(limits, [5, 5, 0, 5])
    found = run("beam", model, SOURCE, extra_length=50)
    assert found.lengths.numpy().max() <= 5
