"""What every layer must do: configure, build, save, load and compute in every dtype policy."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.decoder import Decoder, DecoderLayer
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.embedding import OutputProjection, TokenEmbedding
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.masks import AttentionMasks
from keras_transformer.layers.position import PositionalEncoding
from keras_transformer.layers.residual import Residual

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
MEMORY = np.random.default_rng(1).normal(size=(2, 7, 8)).astype(np.float32)
IDS = np.array([[2, 5, 4, 0, 0], [2, 7, 7, 9, 3]], np.int32)
SOURCE = np.array([[5, 6, 3, 0, 0, 0, 0], [5, 6, 7, 8, 9, 4, 3]], np.int32)
MASK = (IDS != 0)[:, None, None]
CAUSAL = MASK & np.tri(5, dtype=bool)
MEMORY_MASK = (SOURCE != 0)[:, None, None]
LAYER = {"num_heads": 2, "d_k": 3, "d_v": 5, "d_ff": 12, "dropout": 0.2, "activation": "gelu"}
PRE = {**LAYER, "norm": "pre", "attention_dropout": 0.1, "relu_dropout": 0.3, "epsilon": 1e-3}


@keras.saving.register_keras_serializable("tests")
class Halving(keras.layers.Layer):
    """`Residual` around a function: it has no other life than inside a layer."""

    def __init__(self, norm, dropout, epsilon, **kwargs):
        super().__init__(**kwargs)
        self.residual = Residual(norm, dropout, epsilon, dtype=self.dtype_policy, name="residual")

    def build(self, x_shape):
        self.residual.build(x_shape)

    def call(self, x):
        return self.residual(x, sublayer=lambda x: 0.5 * x)

    def get_config(self):
        config = self.residual.get_config()
        return {**super().get_config(), **{k: config[k] for k in ("norm", "dropout", "epsilon")}}


# Name: the class, its arguments, and the inputs of a call.
CASES = {
    "masks": (AttentionMasks, {}, [SOURCE, IDS]),
    "window_masks": (AttentionMasks, {"window": 3}, [SOURCE, IDS]),
    "dropout": (Dropout, {"rate": 0.3, "seed": 4}, [X]),
    "token_embedding": (TokenEmbedding, {"vocab_size": 11, "d_model": 8}, [IDS]),
    "output_projection": (OutputProjection, {"vocab_size": 11}, [X]),
    "interleaved": (PositionalEncoding, {}, [X]),
    "concatenated": (PositionalEncoding, {"kind": "concatenated"}, [X]),
    "learned": (PositionalEncoding, {"kind": "learned", "max_positions": 9}, [X]),
    "attention": (
        MultiHeadAttention,
        {"num_heads": 2, "d_k": 3, "d_v": 5, "dropout": 0.1},
        [X, MEMORY, MEMORY_MASK],
    ),
    "feed_forward": (FeedForward, {"d_ff": 12, "activation": "gelu", "dropout": 0.1}, [X]),
    "encoder_layer": (EncoderLayer, LAYER, [X, MASK]),
    "decoder_layer": (DecoderLayer, LAYER, [X, MEMORY, CAUSAL, MEMORY_MASK]),
    "encoder": (Encoder, {"num_layers": 1, "layer": LAYER}, [X, MASK]),
    "pre_encoder": (Encoder, {"num_layers": 2, "layer": PRE}, [X, MASK]),
    "decoder": (Decoder, {"num_layers": 1, "layer": LAYER}, [X, MEMORY, CAUSAL, MEMORY_MASK]),
    "pre_decoder": (Decoder, {"num_layers": 1, "layer": PRE}, [X, MEMORY, CAUSAL, MEMORY_MASK]),
    "post_residual": (Halving, {"norm": "post", "dropout": 0.1, "epsilon": 1e-3}, [X]),
    "pre_residual": (Halving, {"norm": "pre", "dropout": 0.1, "epsilon": 1e-3}, [X]),
}
FLOAT32_OUTPUT = {"output_projection"}  # whatever the policy
EVERY_LAYER = pytest.mark.parametrize("name", CASES)


def make(case, **kwargs):
    cls, arguments, inputs = CASES[case]
    return cls(**arguments, **kwargs), inputs


def shake(layer):
    """Sets random weights: zero biases and unit gains would hide a loss."""
    rng = np.random.default_rng(3)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) * 0.5)


def close(found, expected, atol=1e-5):
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        if one.dtype == tf.bool:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, atol=atol)


def functional(layer, inputs):
    """A model of the layer alone, with batch and length unknown."""
    symbols = [
        keras.Input(
            (*(None if size > 1 else 1 for size in x.shape[1:-1]), None)
            if x.dtype in (bool, np.int32)
            else (None, 8),
            dtype=str(x.dtype),
        )
        for x in inputs
    ]
    return keras.Model(symbols, layer(*symbols))


@EVERY_LAYER
def test_a_layer_from_its_config_does_the_same(name):
    layer, inputs = make(name, name="its_name")
    expected = layer(*inputs)
    config = layer.get_config()
    copy = type(layer).from_config(json.loads(json.dumps(config)))
    assert copy.name == "its_name" and copy.get_config() == config
    copy(*inputs)
    copy.set_weights(layer.get_weights())
    close(copy(*inputs), expected)


@EVERY_LAYER
def test_symbolic_input_builds_what_eager_input_builds(name):
    layer, inputs = make(name)
    eager, _ = make(name)
    expected = eager(*inputs)
    model = functional(layer, inputs)
    assert [w.path.split("/")[1:] for w in layer.weights] == [
        w.path.split("/")[1:] for w in eager.weights
    ]
    assert [w.shape for w in layer.weights] == [w.shape for w in eager.weights]
    assert len({w.path for w in layer.weights}) == len(layer.weights)
    layer.set_weights(eager.get_weights())
    found = model(inputs)
    close(found, expected)
    specs = tf.nest.flatten(model.output)
    for spec, value in zip(specs, tf.nest.flatten(found), strict=True):
        assert spec.dtype == value.dtype.name and len(spec.shape) == len(value.shape)
        known = [(a, b) for a, b in zip(spec.shape, value.shape, strict=True) if a is not None]
        assert all(a == b for a, b in known)


@EVERY_LAYER
def test_a_saved_model_loads_with_the_same_outputs(name, tmp_path):
    layer, inputs = make(name)
    model = functional(layer, inputs)
    shake(layer)
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for found, wanted in zip(
        tf.nest.flatten(loaded(inputs)), tf.nest.flatten(expected), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    assert [w.path for w in loaded.weights] == [w.path for w in model.weights]


@EVERY_LAYER
def test_every_policy_computes_near_float32_and_trains_every_weight(name, policy):
    exact, inputs = make(name)
    layer, _ = make(name, dtype=policy)
    expected = exact(*inputs)
    layer(*inputs)
    layer.set_weights(exact.get_weights())
    with tf.GradientTape() as tape:
        found = layer(*inputs)
        for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
            if other.dtype == tf.bool:
                assert one.dtype == tf.bool
                return
        projections = tf.cast(found, tf.float32) * X[..., :1] * np.arange(found.shape[-1])
    assert found.dtype == ("float32" if name in FLOAT32_OUTPUT else layer.compute_dtype)
    tolerance = {"float32": 1e-6, "mixed_float16": 0.02, "mixed_bfloat16": 0.15}[policy]
    np.testing.assert_allclose(tf.cast(found, tf.float32), expected, atol=tolerance)
    assert all(weight.dtype == "float32" for weight in layer.trainable_weights)
    gradients = tape.gradient(projections, [weight.value for weight in layer.trainable_weights])
    for weight, gradient in zip(layer.trainable_weights, gradients, strict=True):
        gradient = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(gradient).all() and gradient.any(), weight.path


def test_a_model_of_embedding_and_logits_loads_with_one_table(tmp_path):
    ids = keras.Input((None,), dtype="int32")
    embedding = TokenEmbedding(11, 8)
    model = keras.Model(ids, embedding(embedding(ids), reverse=True))
    expected = model(IDS)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == 1
    np.testing.assert_array_equal(loaded(IDS), expected)
