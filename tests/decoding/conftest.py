"""Tiny random models, made once each."""

import functools

import keras
import numpy as np
import pytest

from keras_transformer.config import TransformerConfig
from keras_transformer.model import build_transformer

# Untied: a random model that shares its table repeats its input, and all results are alike.
TINY = TransformerConfig(
    vocab_size=6,
    num_layers=1,
    d_model=8,
    d_ff=12,
    num_heads=2,
    tie_embeddings="none",
    max_positions=60,
)


@functools.cache
def _model(seed, policy, changes):
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(policy)
    model = build_transformer(TINY.replace(**dict(changes)))
    keras.config.set_dtype_policy("float32")
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        values = rng.normal(size=weight.shape)
        if len(weight.shape) == 1:  # biases and gains, which begin alike
            weight.assign_add(0.3 * values)
            continue
        fan_in = weight.shape[1 if weight.path.endswith("table") else 0]
        # Long vectors and wide logits: what was read and written decides what comes next.
        factors = {"source_embedding": 3.0, "target_embedding": 3.0, "projection": 2.0}
        factor = factors.get(weight.path.split("/")[0], 1.0)
        weight.assign(factor * fan_in**-0.5 * values)
    return model


@pytest.fixture(scope="session")
def make_model():
    """Maps a seed and changes of the tiny configuration to a model, which tests leave as it is."""

    def make(seed=0, policy="float32", **changes):
        return _model(seed, policy, tuple(sorted(changes.items())))

    return make


@pytest.fixture
def steered():
    """Maps {token: logit} to a new model that predicts about these logits at every place."""

    def make(logits):
        keras.utils.set_random_seed(0)
        model = build_transformer(TINY)
        norm = model.get_layer("decoder").blocks[-1].feed_forward_residual.layer_norm
        norm.beta.assign(10.0 * np.eye(8)[0])  # the first component is 10, more or less
        kernel = model.get_layer("projection").kernel
        values = kernel.numpy()
        values[0] = 0.0
        for token, logit in logits.items():
            values[:, token] = logit / 10.0 * np.eye(8)[0]
        kernel.assign(values)
        return model

    return make
