"""The rate rises over the warm-up and falls with the root of the update's number, from 1."""

import keras
import numpy as np
import pytest
import tensorflow as tf

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
    schedule = TransformerSchedule(96, 7, 1.5, steps=60, cooldown_steps=20)
    copy = TransformerSchedule.from_config(schedule.get_config())
    expected = {"d_model": 96, "warmup_steps": 7, "factor": 1.5, "steps": 60, "cooldown_steps": 20}
    assert copy.get_config() == expected
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert [float(copy(s)) for s in (0, 6, 50)] == [float(again(s)) for s in (0, 6, 50)]
    assert float(copy(3)) == float(schedule(3))


@pytest.mark.parametrize("name", ["d_model", "warmup_steps"])
def test_a_size_below_one_is_an_error_that_names_it(name):
    with pytest.raises(ValueError, match=f"`{name}` should be at least 1. Received: {name}=0"):
        TransformerSchedule(**{"d_model": 512, "warmup_steps": 4000, name: 0})


def test_a_cooldown_takes_the_rate_evenly_to_zero_after_the_last_update():
    plain = TransformerSchedule(64, warmup_steps=10)
    cooled = TransformerSchedule(64, warmup_steps=10, steps=40, cooldown_steps=20)
    shares = np.array([cooled(update - 1) / plain(update - 1) for update in range(1, 50)])
    np.testing.assert_array_equal(shares[:21], 1.0)  # updates 1 to 21
    np.testing.assert_allclose(shares[20:41], np.arange(20, -1, -1) / 20, atol=1e-6)
    assert shares[39] > 0 and not shares[40:].any()  # the last update is one still


@pytest.mark.parametrize("wrong", [{"cooldown_steps": 5}, {"steps": 4, "cooldown_steps": 5}])
def test_a_cooldown_longer_than_the_training_is_an_error(wrong):
    with pytest.raises(ValueError, match="`cooldown_steps` should be from 0 to `steps`.*=5"):
        TransformerSchedule(64, **wrong)
