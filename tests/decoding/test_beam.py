"""The search finds what an enumeration of every hypothesis finds, and keeps sentences apart."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, DecodingConfig
from keras_transformer.decoding.beam import beam_search, top_k
from keras_transformer.decoding.hypotheses import length_penalty
from keras_transformer.decoding.incremental import IncrementalDecoder
from keras_transformer.decoding.sampling import greedy_search
from keras_transformer.decoding.scoring import attention_weights, score_pairs

TOKENS = (1, 4, 5)  # what a vocabulary of 6 leaves beside the marks
SOURCE = np.array([[4, 3, 0, 0], [5, 1, 3, 0], [0, 0, 0, 0], [1, 5, 4, 3], [3, 0, 0, 0]], np.int32)
ALPHAS = pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])


def search(model, source, n_best=1, prefix_ids=None, **options):
    decoder, config = IncrementalDecoder(model), DecodingConfig(**options)
    return beam_search(decoder, tf.constant(source), config, n_best, prefix_ids)


def graph(model, n_best=1, **options):
    """The search as a graph of any batch size and length."""
    decoder, config = IncrementalDecoder(model), DecodingConfig(**options)
    return tf.function(
        lambda source: beam_search(decoder, source, config, n_best),
        input_signature=[tf.TensorSpec((None, None), tf.int32)],
        autograph=False,
    )


def real(row):
    return row[row != PAD_ID]


def log_probs(model, source, hypotheses):
    """log P of each hypothesis (a tuple of ids, end mark included), by the uncached model."""
    out = np.zeros((len(hypotheses), max(map(len, hypotheses))), np.int32)
    for row, ids in zip(out, hypotheses, strict=True):
        row[: len(ids)] = ids
    begin = np.full((len(out), 1), BEGIN_ID, np.int32)
    logits = model([np.tile(source, (len(out), 1)), np.concatenate([begin, out[:, :-1]], 1)])
    logits = logits.numpy().astype(np.float64)
    each = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    each = np.take_along_axis(each, out[..., None], -1)[..., 0]
    return (each * (out != PAD_ID)).sum(-1)


def every_hypothesis(limit):
    """All that end with the end mark within the limit, and all that reach it without."""
    for length in range(limit):
        for ids in itertools.product(TOKENS, repeat=length):
            yield (*ids, END_ID)
    yield from itertools.product(TOKENS, repeat=limit)


def penalised(log_p, length, alpha):
    return log_p / ((5 + length) / 6) ** alpha


def coverage(model, source, hypotheses, beta):
    """The coverage penalty of Wu et al., of hypotheses of one length, by the whole model."""
    target_in = np.array([[BEGIN_ID, *ids[:-1]] for ids in hypotheses], np.int32)
    sources = np.repeat(source, len(target_in), axis=0)
    weights = attention_weights(model, sources, target_in).memory[-1].numpy().mean(1)
    given = weights.sum(1)[:, source[0] != PAD_ID]
    return beta * np.log(np.minimum(given, 1.0)).sum(1)


def results(found, row):
    """[(ids, score)] of a row, padding cut."""
    return [
        (tuple(ids[:length]), score)
        for ids, length, score in zip(
            found.ids[row].numpy(),
            found.lengths[row].numpy(),
            found.scores[row].numpy(),
            strict=True,
        )
    ]


@ALPHAS
def test_length_penalty_is_that_of_wu_et_al(alpha):
    expected = [((5 + n) / 6) ** alpha for n in (1, 7, 50)]
    np.testing.assert_allclose(length_penalty([1, 7, 50], alpha), expected, rtol=1e-6)


def test_an_exhaustive_beam_finds_the_best_of_all_hypotheses_and_the_next(make_model):
    """Limits of 4 and 5 tokens: 202 - 81 and 364 hypotheses, of which a beam of 324 misses none."""
    sources, extra, n_best = SOURCE[:2], 2, 30
    best = {}
    for seed in (6, 12):
        model = make_model(seed)
        scored = {}
        for row, source in enumerate(sources):
            hypotheses = list(every_hypothesis(limit=len(real(source)) + extra))
            scored[row] = hypotheses, log_probs(model, source, hypotheses)
        for alpha in (0.0, 0.6, 1.0):
            found = search(
                model, sources, beam_size=324, alpha=alpha, extra_length=extra, n_best=n_best
            )
            for row, (hypotheses, log_p) in scored.items():
                scores = penalised(log_p, np.array([len(ids) for ids in hypotheses]), alpha)
                order = np.argsort(-scores)[:n_best]
                expected = [hypotheses[i] for i in order]
                best[seed, alpha, row] = expected[0]
                ids, found_scores = zip(*results(found, row), strict=True)
                np.testing.assert_allclose(found_scores, scores[order], rtol=1e-4)
                assert list(ids) == [tuple(t for t in h if t != END_ID) for h in expected]
                assert {h[-1] == END_ID for h in expected} == {True, False}
    # The cases tell penalties and kinds of end apart, or they would show little.
    assert any(best[s, 0.0, r] != best[s, 1.0, r] for s in (6, 12) for r in range(2))
    assert {ids[-1] == END_ID for ids in best.values()} == {True, False}


def reference_search(model, source, beam_size, alpha, limit, n_best):
    """Beam search of one sentence to its very end, with the uncached model, in plain Python."""
    going, ended = [((), 0.0)], []
    for step in range(1, limit + 1):
        grown = [(*ids, t) for ids, _ in going for t in (*TOKENS, *range(6, 9), END_ID)]
        log_p = log_probs(model, source, grown)
        kept = [(grown[i], log_p[i]) for i in np.argsort(-log_p)[:beam_size]]
        over = [ids[-1] == END_ID or step == limit for ids, _ in kept]
        ended += [
            (tuple(t for t in ids if t != END_ID), penalised(p, step, alpha))
            for (ids, p), o in zip(kept, over, strict=True)
            if o
        ]
        going = [pair for pair, o in zip(kept, over, strict=True) if not o]
        if not going:
            break
    return sorted(ended, key=lambda pair: -pair[1])[:n_best]


@pytest.mark.parametrize(("beam_size", "alpha", "n_best"), [(2, 0.6, 1), (3, 0.0, 2), (4, 1.0, 4)])
def test_stopping_early_loses_nothing_to_a_search_to_the_end(make_model, beam_size, alpha, n_best):
    model = make_model(3, vocab_size=9)
    found = search(model, SOURCE, beam_size=beam_size, alpha=alpha, extra_length=4, n_best=n_best)
    for row in (0, 1, 3):
        source = SOURCE[row]
        limit = len(real(source)) + 4
        expected = reference_search(model, source, beam_size, alpha, limit, n_best)
        for (ids, score), (expected_ids, expected_score) in zip(
            results(found, row), expected, strict=True
        ):
            assert ids == expected_ids
            np.testing.assert_allclose(score, expected_score, rtol=1e-4)


@pytest.mark.parametrize(("seed", "source"), [(8, [4, 4, 7, 3]), (33, [5, 8, 4, 3])])
def test_the_search_waits_for_a_longer_hypothesis_that_the_penalty_lets_win(
    make_model, seed, source
):
    """In these, a hypothesis that ended leads for a while by the penalty of the step at hand."""
    model, source = make_model(seed, vocab_size=9), np.array([source], np.int32)
    ((expected, score),) = reference_search(model, source[0], 2, 1.0, limit=12, n_best=1)
    ((ids, found),) = results(search(model, source, beam_size=2, alpha=1.0, extra_length=8), 0)
    assert ids == expected and len(ids) > 0
    np.testing.assert_allclose(found, score, rtol=1e-4)


@pytest.mark.parametrize(
    ("seed", "changes"), [(1, {}), (7, {"norm": "pre", "attention_window": 2})], ids=str
)
def test_a_beam_of_one_is_greedy_search(make_model, seed, changes):
    model = make_model(seed, vocab_size=12, **changes)
    options = {"beam_size": 1, "alpha": 0.6, "extra_length": 4, "beta": 0.2}
    found = search(model, SOURCE, **options)
    greedy = greedy_search(
        IncrementalDecoder(model), tf.constant(SOURCE), DecodingConfig(**options)
    )
    for row in (0, 1, 3):
        source, ids = SOURCE[row : row + 1], [BEGIN_ID]
        while len(ids) - 1 < len(real(source[0])) + 4 and ids[-1] != END_ID:
            logits = model([source, np.array([ids], np.int32)])[0, -1].numpy()
            logits[[PAD_ID, BEGIN_ID]] = -np.inf
            ids.append(int(logits.argmax()))
        score = penalised(log_probs(model, source[0], [tuple(ids[1:])])[0], len(ids) - 1, 0.6)
        score += coverage(model, source, [ids[1:]], beta=0.2)[0]
        expected_ids = tuple(t for t in ids[1:] if t != END_ID)
        for way in (found, greedy):
            ((found_ids, found_score),) = results(way, row)
            assert found_ids == expected_ids
            np.testing.assert_allclose(found_score, score, rtol=1e-4)
    for row in (2, 4):  # nothing to translate
        assert results(found, row) == results(greedy, row) == [((), 0.0)]
    assert found.lengths.numpy().max() > 2


def test_neither_batch_nor_order_nor_a_long_neighbour_changes_a_result(make_model):
    model = make_model(2, vocab_size=20, d_model=16)
    run = graph(model, beam_size=3, alpha=0.6, extra_length=4, n_best=2)
    rng = np.random.default_rng(0)
    rows = [np.append(rng.integers(4, 20, length), END_ID) for length in (3, 1, 6, 2, 5, 1, 4, 25)]

    def together(rows):
        ids = np.zeros((len(rows), max(map(len, rows))), np.int32)
        for row, tokens in zip(ids, rows, strict=True):
            row[: len(tokens)] = tokens
        return ids

    alone = [results(run(together([row])), 0) for row in rows]
    assert len({one[0][0] for one in alone}) > 4  # different sentences, different results
    for order in (list(range(8)), [7, 3, 0, 6, 1, 5, 4, 2]):
        found = run(together([rows[i] for i in order]))
        for place, i in enumerate(order):
            for (ids, score), (expected_ids, expected) in zip(
                results(found, place), alone[i], strict=True
            ):
                assert ids == expected_ids
                np.testing.assert_allclose(score, expected, rtol=1e-5)


def test_the_graph_finds_what_eager_execution_finds(make_model):
    model = make_model(1, vocab_size=12)
    options = {"beam_size": 3, "alpha": 0.6, "extra_length": 4, "n_best": 3}
    for found, expected in zip(
        graph(model, **options)(SOURCE), search(model, SOURCE, **options), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(("beam_size", "alpha"), [(1, 0.6), (2, 0.0), (5, 0.6), (5, 1.0)])
def test_results_are_distinct_sorted_clean_and_scored_as_the_model_scores_them(
    make_model, beam_size, alpha
):
    model = make_model(2, vocab_size=9)
    found = search(
        model, SOURCE, beam_size=beam_size, alpha=alpha, extra_length=3, n_best=beam_size
    )
    for row in (0, 1, 3):
        limit = len(real(SOURCE[row])) + 3
        pairs = results(found, row)
        scores = [score for _, score in pairs]
        assert scores == sorted(scores, reverse=True)
        candidates = []
        for (ids, score), row_ids in zip(pairs, found.ids[row].numpy(), strict=True):
            assert not {PAD_ID, BEGIN_ID, END_ID} & set(ids) and len(ids) <= limit
            assert not row_ids[len(ids) :].any()
            whole = ids if len(ids) == limit else (*ids, END_ID)
            candidates.append(whole)
            out = np.array([whole], np.int32)
            log_p = score_pairs(
                model, SOURCE[row : row + 1], np.insert(out[:, :-1], 0, BEGIN_ID, 1), out
            )
            np.testing.assert_allclose(score, penalised(log_p[0], len(whole), alpha), rtol=1e-4)
        assert len(set(candidates)) == len(candidates)


def test_each_sentence_has_its_own_limit(steered):
    found = search(steered({END_ID: -50.0}), SOURCE, beam_size=2, extra_length=3, n_best=2)
    np.testing.assert_array_equal(found.lengths[:, 0], [2 + 3, 3 + 3, 0, 4 + 3, 0])
    np.testing.assert_array_equal(found.lengths[:, 1], [2 + 3, 3 + 3, 0, 4 + 3, 0])
    assert found.ids.shape == (5, 2, 7)


def test_an_end_mark_at_once_gives_an_empty_result(steered):
    found = search(steered({END_ID: 50.0}), SOURCE[:2], beam_size=2, alpha=0.6, extra_length=3)
    np.testing.assert_array_equal(found.lengths, [[0], [0]])
    np.testing.assert_allclose(found.scores, [[0.0], [0.0]], atol=1e-4)
    assert not found.ids.numpy().any()


def test_padding_and_begin_marks_are_never_output(steered):
    model = steered({PAD_ID: 50.0, BEGIN_ID: 50.0})
    found = search(model, SOURCE[:2], beam_size=3, extra_length=3, n_best=3)
    for row in range(2):
        for ids, score in results(found, row):
            assert not {PAD_ID, BEGIN_ID} & set(ids) and np.isfinite(score)


def test_a_source_of_nothing_gives_nothing_at_score_0_and_harms_no_neighbour(make_model):
    model = make_model(1, vocab_size=12)
    options = {"beam_size": 3, "extra_length": 3, "n_best": 3}
    found = search(model, SOURCE, **options)
    for row in (2, 4):  # padding alone, an end mark alone
        np.testing.assert_array_equal(found.scores[row], [0.0, -np.inf, -np.inf])
        assert not found.ids[row].numpy().any() and not found.lengths[row].numpy().any()
    without = search(model, SOURCE[[0, 1, 3]], **options)
    for row, place in ((0, 0), (1, 1), (3, 2)):
        assert [ids for ids, _ in results(found, row)] == [
            ids for ids, _ in results(without, place)
        ]
    alone = search(model, SOURCE[[2, 4]], **options)
    np.testing.assert_array_equal(alone.scores[:, 0], [0.0, 0.0])
    assert alone.ids.shape[:2] == (2, 3) and not alone.ids.numpy().any()


def test_the_coverage_penalty_chooses_among_the_hypotheses_that_ended(make_model):
    """With the same beam, results are the same hypotheses, scored and sorted anew."""
    model = make_model(6)
    options = {"beam_size": 324, "alpha": 0.6, "extra_length": 2}
    differs = False
    for row in (0, 1):
        source = SOURCE[row : row + 1]
        limit = len(real(SOURCE[row])) + 2
        hypotheses = list(every_hypothesis(limit))
        scores = penalised(
            log_probs(model, SOURCE[row], hypotheses), np.array(list(map(len, hypotheses))), 0.6
        )
        plain = int(np.argmax(scores))
        by_length = sorted({len(h) for h in hypotheses})
        for length in by_length:
            places = [i for i, h in enumerate(hypotheses) if len(h) == length]
            scores[places] += coverage(model, source, [hypotheses[i] for i in places], beta=0.7)
        best = int(np.argmax(scores))
        differs |= best != plain
        ((ids, score),) = results(search(model, source, beta=0.7, **options), 0)
        assert ids == tuple(t for t in hypotheses[best] if t != END_ID)
        np.testing.assert_allclose(score, scores[best], rtol=1e-4)
    assert differs


@pytest.mark.parametrize("k", [1, 4])
def test_the_best_of_long_rows_are_those_of_tensorflow_equals_and_infinities_too(k):
    rng = np.random.default_rng(k)
    values = rng.integers(0, 300, (5, 4111)).astype(np.float32)  # with many equals
    values[1], values[2, 70:] = 7.0, -np.inf
    values[3] = -np.inf
    values[3, [4100, 4110, 2000]] = [3.0, 4.0, 3.0]
    found, places = top_k(tf.constant(values), k)
    expected, expected_places = tf.math.top_k(values, k)
    np.testing.assert_array_equal(found, expected)
    real = expected > -np.inf
    np.testing.assert_array_equal(places[real], expected_places[real])
    assert (places.numpy() < 4111).all()


def test_with_patience_a_sentence_is_done_when_so_many_have_ended(make_model):
    decoder = IncrementalDecoder(make_model(8))
    source = tf.constant(SOURCE)
    whole = beam_search(decoder, source, DecodingConfig(beam_size=3, alpha=1.0), 3)
    steps = []

    class Counting:
        """The decoder, and how far it was asked to go."""

        max_positions = None
        encode, empty_past, reorder = decoder.encode, decoder.empty_past, decoder.reorder

        @staticmethod
        def step(ids, past, memory, index, room):
            steps.append(int(index) + 1)
            return decoder.step(ids, past, memory, index, room)

    counts = {}
    for patience in (1.0, 2.0, 1000.0, None):
        steps.clear()
        config = DecodingConfig(beam_size=3, alpha=1.0, patience=patience)
        found = beam_search(Counting, source, config, 3)
        counts[patience] = len(steps)
        assert (found.scores <= whole.scores + 1e-6).numpy().all()
        # As many have ended as were asked for; of nothing there is one result.
        np.testing.assert_array_equal(found.scores > -np.inf, whole.scores > -np.inf)
    assert counts[1.0] < counts[2.0] <= counts[1000.0] == counts[None]
    np.testing.assert_array_equal(found.ids, whole.ids)


@pytest.mark.parametrize("n_best", [0, 3])
def test_more_results_than_beams_are_an_error_that_names_the_remedy(make_model, n_best):
    with pytest.raises(ValueError, match=f"beam_size=2. Received: n_best={n_best}. Raise"):
        search(make_model(), SOURCE, beam_size=2, n_best=n_best)
