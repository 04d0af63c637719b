"""Weights in fewer bits: near to what they were, smaller on the disk, and used by the export."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.export import export_saved_model, load
from keras_transformer.model import token_embedding
from keras_transformer.storage import StoredWeights

SOURCE = np.array([[5, 40, 7, 3], [9, 3, 0, 0]], np.int32)
TARGET = np.array([[2, 30, 31], [2, 8, 0]], np.int32)


@pytest.mark.parametrize(
    ("storage", "error"), [("float32", 0.0), ("float16", 1e-3), ("int8", 4e-3)]
)
def test_every_weight_is_near_to_what_it_was(world, storage, error):
    stored = StoredWeights([world.model], storage)
    for variable, expected in zip(world.model.weights, world.model.get_weights(), strict=True):
        with stored.scope():
            found = variable.value.numpy()
        # Half a step of 1/127 of the largest of its column (or of a table's row).
        assert np.abs(found - expected).max() <= error * np.abs(expected).max()
        assert found.dtype == np.float32
        np.testing.assert_array_equal(variable.numpy(), expected)  # outside nothing has changed


def test_the_model_computes_with_the_stored_weights(world):
    plain = world.model([SOURCE, TARGET])
    with StoredWeights([world.model], "int8").scope():
        coarse = world.model([SOURCE, TARGET])
    difference = np.abs(coarse - plain).max()
    assert 0 < difference < 0.2 * np.abs(plain).max()


def test_exports_are_smaller_and_say_how_they_are_stored(world, tmp_path):
    sizes, scores = {}, {}
    for storage in ("float32", "float16", "int8"):
        path = world.path
        if storage != "float32":
            path = tmp_path / storage / "1"
            export_saved_model(world.model, world.vocabularies, world.config, path, storage)
        sizes[storage] = sum(file.stat().st_size for file in (path / "variables").iterdir())
        assert json.loads((path / "keras_transformer.json").read_text())["weights"] == storage
        found = load(path).score(world.lines[:20], world.lines[20:40])
        scores[storage] = np.array(found)
    weights = sum(tf.size(weight).numpy() for weight in world.model.weights) * 4
    # In float32 a tied table lies there a second time, turned.
    laid_out = tf.size(token_embedding(world.model, "target").table.value).numpy() * 4
    difference = sizes["float32"] - laid_out - sizes["float16"]
    assert difference == pytest.approx(weights / 2, rel=0.15)
    assert sizes["int8"] < sizes["float16"]
    np.testing.assert_allclose(scores["float16"], scores["float32"], rtol=5e-3)
    assert not np.array_equal(scores["int8"], scores["float32"])


def test_an_unknown_storage_is_named(world, tmp_path):
    with pytest.raises(ValueError, match="float32, float16, int8. Received: 'int4'"):
        export_saved_model(world.model, world.vocabularies, world.config, tmp_path / "x", "int4")
    assert not (tmp_path / "x").exists()
