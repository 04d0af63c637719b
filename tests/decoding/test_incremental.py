"""One position at a time, with a cache, gives what the whole model gives at once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import BEGIN_ID
from keras_transformer.decoding.incremental import IncrementalDecoder, score_pairs

SOURCE = np.array([[5, 4, 1, 5, 3], [4, 3, 0, 0, 0], [0, 0, 0, 0, 0]], np.int32)
BEAM, LENGTH = 2, 6
VARIANTS = {
    "paper": {"num_layers": 2, "tie_embeddings": "all"},
    "pre": {"norm": "pre", "positions": "learned", "num_decoder_layers": 2},
    "window_1": {"attention_window": 1, "tie_embeddings": "all"},
    "window_4": {"attention_window": 4, "norm": "pre"},
    "own_target_table": {"tie_embeddings": "target", "positions": "concatenated"},
    "untied": {"target_vocab_size": 9, "num_heads": 3, "d_k": 2, "d_v": 5},
}


def prefixes(vocab_size):
    """int32 `[batch, beam, length]`, other tokens in each beam, from the begin mark."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1, vocab_size, (len(SOURCE), BEAM, LENGTH), dtype=np.int32)
    ids[:, :, 0] = BEGIN_ID
    return ids


def uncached(model, ids):
    batch, beam, length = ids.shape
    logits = model([np.repeat(SOURCE, beam, axis=0), ids.reshape(-1, length)])
    return logits.numpy().reshape(batch, beam, length, -1)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_step_gives_the_uncached_models_logits(make_model, name):
    model = make_model(**VARIANTS[name])
    ids = prefixes(model.output.shape[-1])
    expected = uncached(model, ids)
    decoder = IncrementalDecoder(model)
    memory, past = decoder.encode(SOURCE), decoder.empty_past(len(SOURCE) * BEAM)
    for index in range(LENGTH):
        logits, past = decoder.step(ids[:, :, index], past, memory, index)
        assert logits.dtype == tf.float32
        np.testing.assert_allclose(logits, expected[:, :, index], atol=1e-5)
        assert all(part.shape[2] == index + 1 for pair in past for part in pair)


@pytest.mark.parametrize("name", ["paper", "window_4"])
def test_steps_go_on_from_other_beams_after_reordering(make_model, name):
    model = make_model(**VARIANTS[name])
    ids = prefixes(6)
    decoder = IncrementalDecoder(model)
    memory, past = decoder.encode(SOURCE), decoder.empty_past(len(SOURCE) * BEAM)
    for index in range(3):
        _, past = decoder.step(ids[:, :, index], past, memory, index)
    # The first sentence swaps its beams, the second goes on twice from one.
    rows = [1, 0, 3, 3, 4, 5]
    past = decoder.reorder(past, rows)
    continued = ids.copy()
    continued[:, :, :3] = ids.reshape(-1, LENGTH)[rows].reshape(ids.shape)[:, :, :3]
    for index in range(3, LENGTH):
        logits, past = decoder.step(ids[:, :, index], past, memory, index)
        np.testing.assert_allclose(logits, uncached(model, continued)[:, :, index], atol=1e-5)


def test_a_step_runs_in_a_graph_with_the_index_as_a_tensor(make_model):
    model = make_model(attention_window=4, positions="learned")
    ids = prefixes(6)
    decoder = IncrementalDecoder(model)

    @tf.function(autograph=False)
    def logits_of(ids):
        memory, past = decoder.encode(tf.constant(SOURCE)), decoder.empty_past(len(SOURCE) * BEAM)
        steps = []
        for index in range(3):
            logits, past = decoder.step(ids[:, :, index], past, memory, tf.constant(index))
            steps.append(logits)
        return tf.stack(steps, axis=2)

    np.testing.assert_allclose(logits_of(ids), uncached(model, ids)[:, :, :3], atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_steps_are_near_the_uncached_models(make_model, policy):
    model = make_model(policy=policy)
    ids = prefixes(6)
    expected = uncached(model, ids)
    decoder = IncrementalDecoder(model)
    memory, past = decoder.encode(SOURCE), decoder.empty_past(len(SOURCE) * BEAM)
    for index in range(LENGTH):
        logits, past = decoder.step(ids[:, :, index], past, memory, index)
        assert logits.dtype == tf.float32
        assert {part.dtype.name for pair in past for part in pair} == {policy[6:]}
        tolerance = {"mixed_bfloat16": 0.2, "mixed_float16": 0.02}[policy]
        np.testing.assert_allclose(logits, expected[:, :, index], atol=tolerance)


def test_score_pairs_adds_up_the_log_probabilities_of_real_tokens(make_model):
    model = make_model()
    target_in = np.array([[2, 4, 5, 1], [2, 5, 0, 0], [2, 0, 0, 0]], np.int32)
    target_out = np.array([[4, 5, 1, 3], [5, 3, 0, 0], [0, 0, 0, 0]], np.int32)
    logits = model([SOURCE, target_in]).numpy().astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = [
        sum(log_p[row, i, token] for i, token in enumerate(target_out[row]) if token)
        for row in range(3)
    ]
    found = score_pairs(model, SOURCE, target_in, target_out)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    alone = score_pairs(model, SOURCE[1:2, :2], target_in[1:2, :2], target_out[1:2, :2])
    np.testing.assert_allclose(alone, expected[1:2], rtol=1e-5)


def test_another_model_is_an_error_that_names_its_layers():
    x = keras.Input((3,))
    model = keras.Model(x, keras.layers.Dense(2, name="only")(x))
    with pytest.raises(ValueError, match="model of build_transformer was expected.*only"):
        IncrementalDecoder(model)
