"""Adam is the paper's, its kernel TensorFlow's, its arithmetic Keras's."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training.optimizer import FusedAdam, paper_optimizer
from keras_transformer.training.schedule import TransformerSchedule


def test_the_optimiser_is_the_papers_adam():
    config = paper_optimizer(512).get_config()
    assert (config["beta_1"], config["beta_2"], config["epsilon"]) == (0.9, 0.98, 1e-9)
    assert paper_optimizer(512, beta_2=0.997).get_config()["beta_2"] == 0.997
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(paper_optimizer(96, 7, 2.0)))
    assert copy._learning_rate.get_config() == TransformerSchedule(96, 7, 2.0).get_config()


def test_the_optimisers_updates_count_from_one_in_rate_and_in_bias_correction():
    """Adam by hand; with a constant gradient every step is the rate of its number."""
    weight = keras.Variable([1.0, -2.0])
    optimizer = paper_optimizer(4, warmup_steps=3)
    before = weight.numpy()
    for update, rate in ((1, 0.5 * 3**-1.5), (2, 0.5 * 2 * 3**-1.5), (3, 0.5 * 3**-0.5), (4, 0.25)):
        optimizer.apply([tf.constant([0.1, -3.0])], [weight])
        step = before - weight.numpy()
        np.testing.assert_allclose(step, [rate, -rate], rtol=1e-4, err_msg=f"update {update}")
        before = weight.numpy()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_it_does_what_keras_adam_does_in_every_dtype(dtype):
    generator = np.random.default_rng(0)
    start, slopes = generator.normal(size=(3, 4)), generator.normal(size=(20, 3, 4))
    ends = []
    for kind in (keras.optimizers.Adam, FusedAdam):
        weight = keras.Variable(start, dtype=dtype)
        optimizer = kind(0.05, beta_1=0.9, beta_2=0.98, epsilon=1e-3)
        for slope in slopes:
            optimizer.apply([tf.cast(slope, dtype)], [weight])
        ends.append([np.asarray(v, "float32") for v in (weight, *optimizer.variables)])
    assert np.abs(ends[0][0] - start).max() > 0.1
    for one, other in zip(*ends, strict=True):
        atol = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}[dtype]
        np.testing.assert_allclose(one, other, atol=atol)


def test_a_sparse_gradient_counts_as_the_dense_one_it_stands_for():
    ends = []
    values, rows = tf.constant([[1.0], [2.0], [4.0]]), tf.constant([2, 0, 2])
    for gradient in (tf.IndexedSlices(values, rows, (3, 1)), tf.constant([[2.0], [0.0], [5.0]])):
        weight = keras.Variable(np.ones((3, 1)))
        FusedAdam(0.1, epsilon=1.0).apply([gradient], [weight])
        ends.append(weight.numpy())
    np.testing.assert_allclose(*ends)


def test_amsgrad_is_refused():
    with pytest.raises(ValueError, match="no amsgrad"):
        FusedAdam(amsgrad=True)
