"""Token batches: every pair once, within the budget, a function of seed and epoch alone."""

import collections
import itertools

import numpy as np
import pytest

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID
from keras_transformer.data.batching import TokenBatches, choose_boundaries
from keras_transformer.data.corpus import read_parallel_files
from keras_transformer.data.encoding import EncodedPairs, Sequences, encode_pairs
from keras_transformer.text.vocabulary import Vocabularies


def sequences(lengths, first=4):
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Sequences(np.arange(first, first + starts[-1], dtype=np.int32), starts)


@pytest.fixture
def pairs():
    generator = np.random.default_rng(3)
    source = generator.integers(1, 40, 1000)
    target = np.maximum(1, source + generator.integers(-3, 4, 1000))
    return EncodedPairs(sequences(source), sequences(target), {})


def test_boundaries_pad_as_little_as_any_choice_could():
    generator = np.random.default_rng(0)
    for _ in range(20):
        lengths = generator.integers(1, 12, 30)
        values = np.unique(lengths)
        for count in (1, 2, 3, 5):

            def cost(boundaries, lengths=lengths):
                return sum(min(b for b in boundaries if b >= length) for length in lengths)

            best = min(
                cost((*inner, values[-1]))
                for size in range(min(count, len(values)))
                for inner in itertools.combinations(values[:-1], size)
            )
            counts = np.bincount(lengths)[values]
            found = choose_boundaries(values, counts, count)
            assert found == sorted(set(found)) and len(found) <= count
            assert cost(found) == best


def test_every_pair_comes_once_an_epoch_and_fits_its_batch(pairs):
    batches = TokenBatches(pairs, batch_tokens=200, num_buckets=5, seed=1)
    assert len(batches.buckets) <= 5
    for epoch in range(3):
        plan = batches.part(epoch).plan
        assert sorted(np.concatenate([indices for _, indices in plan])) == list(range(1000))
        for bucket, indices in plan:
            assert bucket in batches.buckets
            assert bucket.rows * max(bucket.source_length, bucket.target_length) <= 200
            assert pairs.source_lengths[indices].max() <= bucket.source_length
            assert pairs.target_lengths[indices].max() <= bucket.target_length
        assert sum(len(indices) < bucket.rows for bucket, indices in plan) <= 1
        assert collections.Counter(bucket for bucket, _ in plan) == batches.shapes


def test_a_budget_beyond_the_corpus_pads_no_rows(pairs):
    batches = TokenBatches(pairs, batch_tokens=10**6, num_buckets=5, seed=1)
    ((bucket, indices),) = batches.part(0).plan
    assert bucket.rows == len(indices) == 1000


def test_the_order_depends_on_seed_and_epoch_alone(pairs):
    def order(seed, epoch):
        plan = TokenBatches(pairs, 200, 5, seed).part(epoch).plan
        return [tuple(indices) for _, indices in plan]

    assert order(1, 4) == order(1, 4)
    assert order(1, 4) != order(1, 5)
    assert order(1, 4) != order(2, 4)


def test_the_first_epoch_begins_with_the_heaviest_batch(pairs):
    plan = TokenBatches(pairs, 200, 5, seed=1).part(0).plan
    assert plan[0][0].positions == max(bucket.positions for bucket, _ in plan)


def test_arrays_hold_the_marks_and_nothing_else_than_the_pairs():
    pairs = EncodedPairs(sequences([2, 1], 10), sequences([1, 3], 50), {})
    source, target_in, target_out = pairs.batch(np.array([1, 0]), 3, 4, 5)
    pad, begin, end = PAD_ID, BEGIN_ID, END_ID
    assert source.tolist() == [[12, end, pad, pad], [10, 11, end, pad], [pad] * 4]
    assert target_in.tolist() == [[begin, 51, 52, 53, pad], [begin, 50, pad, pad, pad], [pad] * 5]
    assert target_out.tolist() == [[51, 52, 53, end, pad], [50, end, pad, pad, pad], [pad] * 5]


def test_a_budget_below_the_longest_pair_is_an_error_that_names_both(pairs):
    longest = max(pairs.source_lengths.max(), pairs.target_lengths.max())
    with pytest.raises(ValueError, match=rf"at least {longest}, .*batch_tokens={longest - 1}"):
        TokenBatches(pairs, longest - 1, 5, seed=1)


def test_real_pairs_are_padded_by_less_than_a_tenth_and_the_filter_counts_what_it_drops(real_data):
    folder = real_data / "multi30k"
    text = read_parallel_files(folder / "train.en.gz", folder / "train.de.gz").head(5000)
    text.source[7], text.target[9], text.source[11] = "", " ", "word " * 300
    vocabularies = Vocabularies.learn(text.source, text.target, vocab_size=2000)
    pairs = encode_pairs(text, vocabularies, max_length=100)
    # A lone space is a token like another; only what has no token at all is empty.
    assert pairs.dropped == {"empty": 1, "too long": 1}
    assert len(pairs) == 4998
    assert (
        vocabularies.source.detokenize([pairs.source[0].tolist()]).numpy()[0].decode()
        == (text.source[0])
    )
    assert TokenBatches(pairs, 2560, 24, seed=1).padding() < 0.12


def test_an_error_when_no_pair_is_left():
    lines = ["a b c d e f g h"] * 5
    vocabularies = Vocabularies.learn(lines, lines, vocab_size=270)
    from keras_transformer.data.corpus import ParallelText

    with pytest.raises(ValueError, match="no pair is left of 5.*max_length"):
        encode_pairs(ParallelText(lines, lines, "the text"), vocabularies, max_length=3)
