"""One position at a time, with a cache, gives what the whole model gives at once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import BEGIN_ID
from keras_transformer.decoding.ensemble import EnsembleDecoder
from keras_transformer.decoding.incremental import IncrementalDecoder
from keras_transformer.decoding.room import GROWING, Room
from keras_transformer.decoding.scoring import attention_weights

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


def steps(model, ids, source=SOURCE, room=GROWING):
    """The logits of each step, and the last one's past and attention."""
    return stepped(IncrementalDecoder(model), ids, source, room)


def stepped(decoder, ids, source=SOURCE, room=GROWING, before_step=lambda index, past: past):
    memory = decoder.encode(source, ids.shape[2])
    past, found = decoder.empty_past(len(source), ids.shape[1], room), []
    for index in range(ids.shape[2]):
        past = before_step(index, past)
        logits, past, attention = decoder.step(ids[:, :, index], past, memory, index, room)
        found.append(logits)
    return tf.stack(found, axis=2), past, attention


@pytest.mark.parametrize("name", VARIANTS)
def test_every_step_gives_the_uncached_models_logits(make_model, name):
    model = make_model(**VARIANTS[name])
    ids = prefixes(model.output.shape[-1])
    logits, past, _ = steps(model, ids)
    assert logits.dtype == tf.float32
    np.testing.assert_allclose(logits, uncached(model, ids), atol=1e-5)
    assert all(part.shape[2] == LENGTH * BEAM for pair in past.layers for part in pair)


@pytest.mark.parametrize("room", [GROWING, Room(LENGTH), Room(LENGTH + 3)])
@pytest.mark.parametrize("name", ["paper", "window_4"])
def test_one_beam_or_several_with_or_without_room_ahead(make_model, name, room):
    model = make_model(**VARIANTS[name])
    ids = prefixes(6)
    expected = uncached(model, ids)
    for beams in (slice(0, 1), slice(0, BEAM)):
        logits, _, _ = steps(model, ids[:, beams], room=room)
        np.testing.assert_allclose(logits, expected[:, beams], atol=1e-5)


def test_the_attention_is_the_last_layers_mean_over_heads(make_model):
    model = make_model(num_layers=2)
    ids = prefixes(6)[:2]
    _, _, attention = steps(model, ids, SOURCE[:2])
    for beam in range(BEAM):
        whole = attention_weights(model, SOURCE[:2], ids[:, beam]).memory[-1]
        expected = tf.reduce_mean(whole, axis=1)[:, -1]
        np.testing.assert_allclose(attention[:, beam], expected, atol=1e-6)


def test_an_ensembles_probabilities_are_the_mean_of_its_models(make_model):
    models = [make_model(seed, tie_embeddings="all") for seed in (1, 2)]
    ids = prefixes(6)
    decoder = EnsembleDecoder([IncrementalDecoder(model) for model in models])
    logits, _, _ = stepped(decoder, ids)
    each = [tf.nn.softmax(uncached(model, ids)) for model in models]
    np.testing.assert_allclose(tf.exp(logits), (each[0] + each[1]) / 2, atol=1e-5)


@pytest.mark.parametrize("room", [GROWING, Room(LENGTH + 3)])
@pytest.mark.parametrize("name", ["paper", "window_4"])
def test_steps_go_on_from_other_beams_after_reordering(make_model, name, room):
    model = make_model(**VARIANTS[name])
    ids = prefixes(6)
    decoder = IncrementalDecoder(model)
    # The first sentence swaps its beams, the second goes on twice from one; then again the other.
    swaps = {2: [[1, 0], [1, 1], [0, 1]], 3: [[0, 1], [0, 1], [1, 0]]}
    continued = ids.copy()
    for at, beams in sorted(swaps.items()):
        continued[:, :, :at] = np.take_along_axis(
            continued[:, :, :at], np.array(beams)[:, :, None], axis=1
        )
    logits, _, _ = stepped(
        decoder,
        ids,
        room=room,
        before_step=lambda i, past: decoder.reorder(past, swaps[i]) if i in swaps else past,
    )
    expected = uncached(model, continued)[:, :, max(swaps) :]
    np.testing.assert_allclose(logits[:, :, max(swaps) :], expected, atol=1e-5)


def test_a_step_runs_in_a_graph_with_the_index_as_a_tensor(make_model):
    model = make_model(attention_window=4, positions="learned")
    ids = prefixes(6)
    decoder = IncrementalDecoder(model)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, BEAM, None], tf.int32)])
    def logits_of(ids):
        decoder_ids = tf.transpose(ids, (2, 0, 1))
        memory = decoder.encode(tf.constant(SOURCE), 3)
        past = decoder.empty_past(len(SOURCE), BEAM)
        found = []
        for index in range(3):
            logits, past, _ = decoder.step(decoder_ids[index], past, memory, tf.constant(index))
            found.append(logits)
        return tf.stack(found, axis=2)

    np.testing.assert_allclose(logits_of(ids), uncached(model, ids)[:, :, :3], atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_steps_are_near_the_uncached_models(make_model, policy):
    model = make_model(policy=policy)
    ids = prefixes(6)
    logits, past, _ = steps(model, ids)
    assert logits.dtype == tf.float32
    assert {part.dtype.name for pair in past.layers for part in pair} == {policy[6:]}
    tolerance = {"mixed_bfloat16": 0.2, "mixed_float16": 0.02}[policy]
    np.testing.assert_allclose(logits, uncached(model, ids), atol=tolerance)


def test_another_model_is_an_error_that_names_its_layers():
    x = keras.Input((3,))
    model = keras.Model(x, keras.layers.Dense(2, name="only")(x))
    with pytest.raises(ValueError, match="model of build_transformer was expected.*only"):
        IncrementalDecoder(model)
