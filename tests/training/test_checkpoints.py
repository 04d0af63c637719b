"""Checkpoints are atoms; a damaged one is passed over; averages are means."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.model import build_transformer
from keras_transformer.training.checkpoints import Checkpoints, named_variables
from keras_transformer.training.optimizer import paper_optimizer

TINY = TransformerConfig(vocab_size=20, num_layers=1, d_model=8, d_ff=16, num_heads=2)


@pytest.fixture
def variables():
    return {
        "model/a": tf.Variable([1.0, 2.0]),
        "model/b": tf.Variable([[3.0]]),
        "optimizer/step": tf.Variable(7, dtype=tf.int64),
    }


def fill(variables, value):
    for variable in variables.values():
        variable.assign(tf.cast(tf.fill(variable.shape, value), variable.dtype))


def values(variables):
    return {name: variable.numpy().tolist() for name, variable in variables.items()}


def test_names_cover_every_variable_and_do_not_depend_on_what_was_built_before():
    def names():
        model, optimizer = build_transformer(TINY), paper_optimizer(8)
        optimizer.build(model.trainable_variables)
        named = named_variables(model, optimizer)
        assert len(named) == len(model.variables) + len(optimizer.variables)
        return {name: tuple(variable.shape) for name, variable in named.items()}

    first = names()
    keras.layers.Dropout(0.5)
    assert names() == first


def test_what_was_saved_comes_back(tmp_path, variables):
    checkpoints = Checkpoints(tmp_path / "c")
    before = values(variables)
    checkpoints.save(5, variables, {"epoch": 3})
    fill(variables, 0)
    assert checkpoints.restore_latest(variables) == {"step": 5, "epoch": 3}
    assert values(variables) == before


def test_the_newest_and_the_best_are_kept(tmp_path, variables):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3, 4, 5):
        checkpoints.save(step, variables, {})
        if step == 2:
            checkpoints.mark_best(2)
    assert checkpoints.steps() == [2, 4, 5]
    assert checkpoints.best() == 2


def test_an_irregular_one_is_kept_and_averaged_while_it_is_the_newest(tmp_path, variables):
    checkpoints = Checkpoints(tmp_path, keep=2, every=10)
    for step in (10, 13, 20, 30, 34):
        checkpoints.save(step, variables, {})
    assert checkpoints.steps() == [20, 30, 34]
    assert checkpoints.last(5) == [20, 30, 34] and checkpoints.last(1) == [34]
    checkpoints.save(40, variables, {})
    assert checkpoints.steps() == checkpoints.last(5) == [30, 40]


def test_saving_the_same_step_again_only_renews_the_state(tmp_path, variables):
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save(1, variables, {"bleu": 1.0})
    before = {file.name: file.stat().st_mtime_ns for file in path.glob("variables*")}
    checkpoints.save(1, variables, {"bleu": 2.0})
    assert {file.name: file.stat().st_mtime_ns for file in path.glob("variables*")} == before
    assert checkpoints.restore_latest(variables) == {"step": 1, "bleu": 2.0}


@pytest.mark.parametrize("damage", ["truncate data", "flip a byte", "no index", "bad state"])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning_naming_both(
    tmp_path, variables, damage
):
    checkpoints = Checkpoints(tmp_path)
    fill(variables, 1)
    checkpoints.save(1, variables, {})
    fill(variables, 2)
    path = checkpoints.save(2, variables, {})
    data = next(path.glob("*.data-*"))
    if damage == "truncate data":
        data.write_bytes(data.read_bytes()[:-5])
    elif damage == "flip a byte":
        content = bytearray(data.read_bytes())
        content[1] ^= 1
        data.write_bytes(content)
    elif damage == "no index":
        next(path.glob("*.index")).unlink()
    else:
        (path / "state.json").write_text('{"step": ')
    with pytest.warns(UserWarning, match="step-00000002 is damaged .*step-00000001"):
        assert checkpoints.restore_latest(variables)["step"] == 1
    assert values(variables)["model/a"] == [1.0, 1.0]


def test_a_damaged_checkpoint_is_set_aside_so_that_its_step_can_be_saved_again(tmp_path, variables):
    checkpoints = Checkpoints(tmp_path)
    fill(variables, 1)
    checkpoints.save(1, variables, {})
    next(checkpoints.save(2, variables, {}).glob("*.index")).unlink()
    with pytest.warns(UserWarning, match="damaged"):
        checkpoints.restore_latest(variables)
    fill(variables, 5)
    checkpoints.save(2, variables, {})
    fill(variables, 0)
    assert checkpoints.restore_latest(variables)["step"] == 2
    assert values(variables)["model/a"] == [5.0, 5.0]


def test_when_no_checkpoint_is_whole_it_is_an_error_and_nothing_is_assigned(tmp_path, variables):
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save(1, variables, {})
    next(path.glob("*.index")).unlink()
    fill(variables, 9)
    with pytest.raises(ValueError, match="No checkpoint .* is whole"):
        checkpoints.restore_latest(variables)
    assert values(variables)["model/a"] == [9.0, 9.0]


def test_a_checkpoint_of_another_model_is_refused_by_name_and_shape(tmp_path, variables):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, variables, {})
    other = {**variables, "model/b": tf.Variable([[1.0, 2.0]])}
    with pytest.raises(ValueError, match=r"model/b should have the shape \(1, 2\)"):
        checkpoints.restore_latest(other)
    with pytest.raises(ValueError, match="model/c"):
        checkpoints.restore_latest({"model/c": tf.Variable(1.0)})


def test_what_an_interrupted_writing_left_is_no_checkpoint_and_goes_away(tmp_path, variables):
    checkpoints = Checkpoints(tmp_path)
    (tmp_path / ".writing-00000009").mkdir()
    assert checkpoints.steps() == [] and checkpoints.restore_latest(variables) is None
    checkpoints.save(1, variables, {})
    assert checkpoints.steps() == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001"]


def test_averages_are_means_of_the_weights_alone(tmp_path, variables):
    checkpoints = Checkpoints(tmp_path)
    for step, value in ((1, 1.0), (2, 2.0), (3, 6.0)):
        fill(variables, value)
        checkpoints.save(step, variables, {})
    checkpoints.average([1, 2, 3], variables)
    assert values(variables) == {
        "model/a": [3.0, 3.0],
        "model/b": [[3.0]],
        "optimizer/step": 6,  # as it was
    }


def test_the_state_is_readable_json_and_the_weights_are_tensorflows_own_format(tmp_path, variables):
    path = Checkpoints(tmp_path).save(1, variables, {"identity": {"model": TINY.to_dict()}})
    assert json.loads((path / "state.json").read_text())["identity"]["model"]["d_model"] == 8
    reader = tf.train.load_checkpoint(str(path / "variables"))
    np.testing.assert_array_equal(reader.get_tensor("model/a"), [1.0, 2.0])
