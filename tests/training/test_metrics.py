"""Metrics are means over all real tokens seen, however these were batched."""

import keras
import numpy as np
import pytest

from keras_transformer.training.metrics import Perplexity, TokenAccuracy

TARGETS = np.array([[4, 1, 3, 0, 0], [2, 6, 5, 4, 0], [0, 0, 0, 0, 0]], np.int32)
REAL = TARGETS != 0
LOGITS = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)
for _place in ((0, 0), (0, 2), (1, 3), (2, 0)):  # right; the last is in padding
    LOGITS[_place][TARGETS[_place]] = 9.0
for _place in ((0, 1), (1, 0), (1, 1), (1, 2)):
    LOGITS[_place][TARGETS[_place]] = -9.0
RIGHT = np.array([[1, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]])


def log_probabilities():
    x = LOGITS.astype(np.float64)
    log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return np.take_along_axis(log_p, TARGETS[..., None], -1)[..., 0]


EXPECTED = {
    TokenAccuracy: lambda weights: (RIGHT * weights).sum() / weights.sum(),
    Perplexity: lambda weights: np.exp(-(log_probabilities() * weights).sum() / weights.sum()),
}
METRICS = pytest.mark.parametrize("metric", EXPECTED)


@METRICS
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_metric_is_the_mean_over_real_tokens(metric, dtype):
    found = metric()(TARGETS.astype(dtype), LOGITS)
    np.testing.assert_allclose(found, EXPECTED[metric](REAL), rtol=1e-5)


def test_accuracy_in_numbers():
    assert float(TokenAccuracy()(TARGETS, LOGITS)) == pytest.approx(3 / 7)


@METRICS
def test_batches_of_any_size_and_padding_give_the_same(metric):
    state = metric()
    for rows, length in ((slice(0, 1), 3), (slice(1, 3), 5)):
        state.update_state(TARGETS[rows, :length], LOGITS[rows, :length])
    np.testing.assert_allclose(state.result(), EXPECTED[metric](REAL), rtol=1e-5)
    state.reset_state()
    state.update_state(TARGETS[:1], LOGITS[:1])
    weights = REAL * np.array([[1], [0], [0]])
    np.testing.assert_allclose(state.result(), EXPECTED[metric](weights), rtol=1e-5)


@METRICS
def test_sample_weights_weigh_tokens(metric):
    for weights in (np.array([2.0, 0.5, 7.0]), np.random.default_rng(1).random((3, 5))):
        each = REAL * (weights[:, None] if weights.ndim == 1 else weights)
        found = metric()(TARGETS, LOGITS, sample_weight=weights)
        np.testing.assert_allclose(found, EXPECTED[metric](each), rtol=1e-5)


def test_without_a_real_token_there_is_no_division_by_zero():
    nothing = np.zeros_like(TARGETS)
    assert float(TokenAccuracy()(nothing, LOGITS)) == 0.0
    assert float(Perplexity()(nothing, LOGITS)) == 1.0
    assert float(TokenAccuracy().result()) == 0.0


def test_a_uniform_guess_has_the_vocabulary_as_its_perplexity():
    assert float(Perplexity()(TARGETS, np.zeros_like(LOGITS))) == pytest.approx(7.0, rel=1e-5)


@METRICS
def test_a_metric_comes_back_from_its_config(metric):
    copy = keras.metrics.deserialize(keras.metrics.serialize(metric(name="mine")))
    assert type(copy) is metric and copy.name == "mine"
    np.testing.assert_allclose(copy(TARGETS, LOGITS), EXPECTED[metric](REAL), rtol=1e-5)
