"""The rate rises over the warm-up and falls with the root of the update's number, from 1."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training.optimizer import paper_optimizer
from keras_transformer.training.schedule import TransformerSchedule


@pytest.mark.parametrize(
    ("update", "rate"),
    [
        # 512^-0.5 = 0.04419417; 4000^-1.5 = 3.952847e-6; 4000^-0.5 = 0.01581139
        (1, 1.746928e-7),
        (2, 3.493856e-7),
        (1000, 1.746928e-4),
        (4000, 6.987712e-4),  # the peak
        (16000, 3.493856e-4),  # four times as far, half as high
        (100_000, 1.397542e-4),
    ],
)
def test_the_papers_rate_in_numbers(update, rate):
    np.testing.assert_allclose(TransformerSchedule(512)(update - 1), rate, rtol=1e-6)


def test_the_peak_is_at_the_end_of_the_warm_up():
    rates = np.array([TransformerSchedule(64, warmup_steps=10)(step) for step in range(40)])
    assert rates.argmax() == 9
    assert (np.diff(rates)[:9] > 0).all() and (np.diff(rates)[9:] < 0).all()
    np.testing.assert_allclose(np.diff(rates)[:9], rates[0], rtol=1e-5)


def test_width_and_factor_scale_the_whole_rate():
    base = float(TransformerSchedule(512, 4000)(123))
    np.testing.assert_allclose(TransformerSchedule(2048, 4000)(123), base / 2, rtol=1e-6)
    np.testing.assert_allclose(TransformerSchedule(512, 4000, 2.5)(123), base * 2.5, rtol=1e-6)


@pytest.mark.parametrize(
    "step",
    [6, 6.0, np.int64(6), np.float32(6), tf.constant(6), tf.constant(6, tf.int64), tf.constant(6.0)]
    + [tf.Variable(6, dtype=tf.int64)],
    ids=lambda step: type(step).__name__,
)
def test_a_step_of_any_numeric_type_gives_a_float32_scalar(step):
    rate = TransformerSchedule(4, warmup_steps=100)(step)
    assert rate.dtype == tf.float32 and rate.shape == ()
    np.testing.assert_allclose(rate, 0.5 * 7 * 1e-3, rtol=1e-6)


def test_it_works_in_a_graph_on_the_optimisers_counter():
    rate = tf.function(TransformerSchedule(4, warmup_steps=100))
    np.testing.assert_allclose(rate(tf.constant(6, tf.int64)), 0.5 * 7 * 1e-3, rtol=1e-6)


def test_it_comes_back_from_its_config():
    schedule = TransformerSchedule(96, warmup_steps=7, factor=1.5)
    copy = TransformerSchedule.from_config(schedule.get_config())
    assert copy.get_config() == {"d_model": 96, "warmup_steps": 7, "factor": 1.5}
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert [float(copy(s)) for s in (0, 6, 50)] == [float(again(s)) for s in (0, 6, 50)]
    assert float(copy(3)) == float(schedule(3))


@pytest.mark.parametrize("name", ["d_model", "warmup_steps"])
def test_a_size_below_one_is_an_error_that_names_it(name):
    with pytest.raises(ValueError, match=f"`{name}` should be at least 1. Received: {name}=0"):
        TransformerSchedule(**{"d_model": 512, "warmup_steps": 4000, name: 0})


def test_the_optimiser_is_the_papers_adam():
    config = paper_optimizer(512).get_config()
    assert (config["beta_1"], config["beta_2"], config["epsilon"]) == (0.9, 0.98, 1e-9)
    assert paper_optimizer(512, beta_2=0.997).get_config()["beta_2"] == 0.997
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(paper_optimizer(96, 7, 2.0)))
    assert copy._learning_rate.get_config() == {"d_model": 96, "warmup_steps": 7, "factor": 2.0}


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
