"""The log probability of given pairs, and the attention weights behind it."""

import numpy as np
import tensorflow as tf

from keras_transformer.decoding.scoring import attention_weights, score_pairs

SOURCE = np.array([[5, 4, 1, 5, 3], [4, 3, 0, 0, 0], [0, 0, 0, 0, 0]], np.int32)
TARGET_IN = np.array([[2, 4, 5, 1], [2, 5, 0, 0], [2, 0, 0, 0]], np.int32)
TARGET_OUT = np.array([[4, 5, 1, 3], [5, 3, 0, 0], [0, 0, 0, 0]], np.int32)


def probabilities(model):
    logits = model([SOURCE, TARGET_IN]).numpy().astype(np.float64)
    exponentials = np.exp(logits)
    return exponentials / exponentials.sum(-1, keepdims=True)


def log_probability(probabilities, row):
    return sum(np.log(probabilities[row, i, t]) for i, t in enumerate(TARGET_OUT[row]) if t)


def test_score_pairs_adds_up_the_log_probabilities_of_real_tokens(make_model):
    model = make_model()
    expected = [log_probability(probabilities(model), row) for row in range(3)]
    found = score_pairs(model, SOURCE, TARGET_IN, TARGET_OUT)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    alone = score_pairs(model, SOURCE[1:2, :2], TARGET_IN[1:2, :2], TARGET_OUT[1:2, :2])
    np.testing.assert_allclose(alone, expected[1:2], rtol=1e-5)


def test_an_ensemble_scores_by_the_mean_probability_of_each_token(make_model):
    models = [make_model(1), make_model(2)]
    mean = sum(map(probabilities, models)) / 2
    expected = [log_probability(mean, row) for row in range(3)]
    np.testing.assert_allclose(
        score_pairs(models, SOURCE, TARGET_IN, TARGET_OUT), expected, rtol=1e-5, atol=1e-6
    )


def test_attention_weights_are_those_of_every_layer_and_sum_to_one_over_what_may_be_seen(
    make_model,
):
    model = make_model(num_layers=2, attention_window=4)
    weights = attention_weights(model, SOURCE[:2], TARGET_IN[:2])
    for kind, queries, keys in (("encoder", 5, 5), ("decoder", 4, 4), ("memory", 4, 5)):
        layers = getattr(weights, kind)
        assert len(layers) == 2
        for one in layers:
            assert one.shape == (2, 2, queries, keys)
            np.testing.assert_allclose(tf.reduce_sum(one[0], -1), np.ones((2, queries)), rtol=1e-5)
    assert (
        not weights.decoder[0]
        .numpy()[0][:, np.triu_indices(4, 1)[0], np.triu_indices(4, 1)[1]]
        .any()
    )
    assert not weights.memory[1].numpy()[1, :, :, 2:].any()  # padding of the second source
    # They are what the layer itself computes for what it is given.
    masks = model.get_layer("masks")(SOURCE[:2], TARGET_IN[:2])
    x = model.get_layer("source_positions")(model.get_layer("source_embedding")(SOURCE[:2]))
    block = model.get_layer("encoder").blocks[0]
    _, expected = block.self_attention(x, x, masks[0], return_weights=True)
    np.testing.assert_allclose(weights.encoder[0], expected, atol=1e-6)


def test_lists_of_ids_will_do(make_model):
    model = make_model()
    found = score_pairs(model, [[5, 4, 3]], [[2, 4]], [[4, 3]])
    assert found.shape == (1,)
    assert attention_weights(model, [[5, 4, 3]], [[2, 4]]).memory[0].shape == (1, 2, 2, 3)
