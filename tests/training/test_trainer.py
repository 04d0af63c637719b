"""Training learns, stops, and goes on as if it had never stopped."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_transformer.config import TrainingConfig, TransformerConfig
from keras_transformer.data import prepared
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.corpus import PairStream, ParallelText
from keras_transformer.data.demo import make_demo_corpus
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.prepare import prepare
from keras_transformer.decoding.translator import Translator
from keras_transformer.model import build_transformer
from keras_transformer.text.vocabulary import Vocabularies
from keras_transformer.training.checkpoints import Checkpoints, named_variables
from keras_transformer.training.strategy import make_strategy
from keras_transformer.training.trainer import Interrupted, Trainer

MODEL = TransformerConfig(
    vocab_size=500, num_layers=1, d_model=64, d_ff=128, num_heads=4, dropout=0.1
)
TRAINING = TrainingConfig(
    steps=12,
    batch_tokens=600,
    max_length=64,
    num_buckets=4,
    warmup_steps=40,
    checkpoint_steps=5,
    keep_checkpoints=5,
    evaluate_steps=1000,
)


def demo_text(count=200):
    return ParallelText(*make_demo_corpus(count, 1, 1).train, name="demo")


@pytest.fixture(scope="module")
def text():
    return demo_text()


@pytest.fixture(scope="module")
def vocabularies(text):
    return Vocabularies.learn(text.source, text.target, vocab_size=500)


def make_trainer(
    run_dir, text, vocabularies, model=MODEL, training=TRAINING, strategy=None, pairs=None, **kwargs
):
    pairs = encode_pairs(text, vocabularies, training.max_length) if pairs is None else pairs
    batches = TokenBatches(pairs, training.batch_tokens, training.num_buckets, training.seed)
    identity = {"model": model.to_dict(), "batches": batches.settings}
    make = lambda: build_transformer(model)
    strategy = strategy or make_strategy("single")
    return Trainer(make, training, model.d_model, batches, strategy, run_dir, identity, **kwargs)


def snapshot(trainer):
    return {name: variable.numpy() for name, variable in trainer.variables.items()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("is_prepared", [pytest.param(False, marks=pytest.mark.slow), True])
def test_stopping_and_going_on_is_bit_for_bit_never_having_stopped(
    tmp_path, text, vocabularies, is_prepared, monkeypatch
):
    monkeypatch.setattr(prepared, "_PART_PAIRS", len(text) // 3)

    def pairs():
        if is_prepared:
            return prepare(PairStream(text.name, lambda: iter(text)), vocabularies, tmp_path / "x")
        return None

    losses = {"whole": [], "parts": []}

    def note(kind):
        return lambda progress, loss, perplexity: losses[kind].append(loss)

    whole = make_trainer(
        tmp_path / "whole", text, vocabularies, pairs=pairs(), on_step=note("whole")
    )
    whole.train()
    for steps in (4, 12):  # in the middle of epochs
        training = dataclasses.replace(TRAINING, steps=steps)
        part = make_trainer(
            tmp_path / "parts",
            text,
            vocabularies,
            training=training,
            pairs=pairs(),
            on_step=note("parts"),
        )
        assert part.resume() == (steps > 4)
        part.train()
    assert losses["parts"] == losses["whole"]
    assert_same(snapshot(part), snapshot(whole))
    assert part.progress.step == 12 and part.progress.part == whole.progress.part > 0


def test_ctrl_c_finishes_the_update_saves_and_raises(tmp_path, text, vocabularies, eagerly):
    def press(progress, loss, perplexity):
        if progress.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)  # (ignored, where the tests run in the background)
    trainer = make_trainer(tmp_path, text, vocabularies, on_step=press)
    with pytest.raises(Interrupted):
        trainer.train()
    assert trainer.checkpoints.steps() == [3]
    assert signal.getsignal(signal.SIGINT) is before
    again = make_trainer(tmp_path, text, vocabularies)
    assert again.resume() and again.progress.step == 3
    assert_same(snapshot(again), snapshot(trainer))


def test_a_loss_that_is_not_finite_stops_naming_update_and_rate(
    tmp_path, text, vocabularies, eagerly
):
    trainer = make_trainer(tmp_path, text, vocabularies)
    trainer.model.trainable_variables[0].assign(
        np.full(trainer.model.trainable_variables[0].shape, np.nan)
    )
    with pytest.raises(FloatingPointError, match="nan .*at update 1 .*learning rate"):
        trainer.train()
    assert trainer.checkpoints.steps() == []


def test_weights_that_an_update_ruined_are_not_saved(tmp_path, text, vocabularies, eagerly):
    trainer = make_trainer(tmp_path, text, vocabularies)
    trainer.save()
    weight = trainer.model.trainable_variables[3]
    weight.assign(np.full(weight.shape, np.inf))
    trainer.progress.step = 1
    with pytest.raises(FloatingPointError, match="is not finite after update 1.* checkpoint is"):
        trainer.save()
    assert trainer.checkpoints.steps() == [0]


def test_a_checkpoint_that_does_not_say_whose_it_is_is_refused(
    tmp_path, text, vocabularies, eagerly
):
    trainer = make_trainer(tmp_path, text, vocabularies)
    trainer.save()
    (trainer.checkpoints.path(0) / "state.json").write_text("{}")
    with pytest.raises(ValueError, match="another model: None there"):
        make_trainer(tmp_path, text, vocabularies).resume()


def test_going_on_with_another_model_or_other_batches_is_refused(
    tmp_path, text, vocabularies, eagerly
):
    make_trainer(tmp_path, text, vocabularies).train()
    wider = MODEL.replace(d_ff=256)
    with pytest.raises(ValueError, match="another model: d_ff is 128 there and 256 now"):
        make_trainer(tmp_path, text, vocabularies, wider).resume()
    training = dataclasses.replace(TRAINING, seed=2)
    with pytest.raises(ValueError, match="another batches: seed is 1 there and 2 now"):
        make_trainer(tmp_path, text, vocabularies, training=training).resume()


def test_a_gradient_that_is_not_finite_stops_before_anything_is_saved(
    tmp_path, text, vocabularies, eagerly
):
    training = dataclasses.replace(TRAINING, checkpoint_steps=1)
    trainer = make_trainer(tmp_path, text, vocabularies, training=training)
    gradients = trainer.step._gradients

    def poisoned(*arrays):
        found, sums = gradients(*arrays)
        return [found[0] * np.inf, *found[1:]], sums

    trainer.step._gradients = poisoned
    with pytest.raises(FloatingPointError, match="the gradient's norm (nan|inf)"):
        trainer.train()
    assert trainer.checkpoints.steps() == []


def test_going_on_forgets_figures_of_updates_that_will_be_done_again(
    tmp_path, text, vocabularies, eagerly
):
    trainer = make_trainer(tmp_path, text, vocabularies)
    trainer.progress.step = 3
    trainer.save()
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 2, "loss": 1.0}\n{"step": 5, "loss": 0.5}\n{"step": 3, "lo')
    again = make_trainer(tmp_path, text, vocabularies)
    again.resume()
    assert path.read_text() == '{"step": 2, "loss": 1.0}\n'


def test_recorded_figures_are_means_over_all_tokens_since_the_last_record(
    tmp_path, text, vocabularies, eagerly, monkeypatch
):
    monkeypatch.setattr("keras_transformer.training.trainer._RECORD_STEPS", 3)
    seen = [(0.0, 0.0)]  # tokens so far, loss so far
    training = dataclasses.replace(TRAINING, steps=4)
    trainer = make_trainer(
        tmp_path,
        text,
        vocabularies,
        training=training,
        on_step=lambda progress, loss, _: seen.append(
            (progress.tokens, seen[-1][1] + loss * (progress.tokens - seen[-1][0]))
        ),
    )
    trainer.train()
    (recorded,) = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert recorded["step"] == 3
    assert recorded["loss"] == pytest.approx(seen[3][1] / seen[3][0], rel=1e-6)
    assert trainer.progress.recent[2] == seen[4][0] - seen[3][0]


def test_an_evaluation_that_a_kill_prevented_is_made_up_for(tmp_path, text, vocabularies, eagerly):
    training = dataclasses.replace(TRAINING, steps=2, evaluate_steps=2, checkpoint_steps=2)
    make_trainer(tmp_path, text, vocabularies, training=training).train()  # none was asked for
    seen = []

    def evaluate(trainer):
        seen.append(trainer.progress.step)
        return {"bleu": 1.0}

    again = make_trainer(tmp_path, text, vocabularies, training=training, evaluate=evaluate)
    again.resume()
    again.train()
    assert seen == [2] and again.checkpoints.best() == 2


def test_evaluations_mark_the_best_checkpoint(tmp_path, text, vocabularies, eagerly):
    scores = iter([10.0, 30.0, 20.0])
    training = dataclasses.replace(TRAINING, steps=6, evaluate_steps=2, checkpoint_steps=100)
    trainer = make_trainer(
        tmp_path,
        text,
        vocabularies,
        training=training,
        evaluate=lambda trainer: {"bleu": next(scores)},
    )
    trainer.train()
    assert trainer.progress.best_bleu == 30.0
    assert trainer.checkpoints.best() == 4
    assert trainer.checkpoints.steps() == [2, 4, 6]
    assert (tmp_path / "metrics.jsonl").read_text().count("valid_bleu") == 3


def test_moving_averages_are_evaluated_saved_and_averaged_in_the_weights_place(
    tmp_path, text, vocabularies, eagerly
):
    training = dataclasses.replace(TRAINING, steps=4, ema_decay=0.75, checkpoint_steps=2)
    weights, evaluated = [], []

    def table(trainer):
        return trainer.variables["model/embedding/table"].numpy()

    def evaluate(trainer):
        evaluated.append(table(trainer))
        return {}

    trainer = make_trainer(tmp_path, text, vocabularies, training=training, evaluate=evaluate)
    trainer.on_step = lambda progress, loss, perplexity: weights.append(table(trainer))
    trainer.train()
    averages = [weights[0]]
    for weight in weights[1:]:
        averages.append(0.75 * averages[-1] + 0.25 * weight)
    np.testing.assert_allclose(evaluated[-1], averages[-1], atol=1e-6)
    np.testing.assert_array_equal(table(trainer), weights[-1])  # training goes on from these
    fresh = build_transformer(MODEL)
    trainer.checkpoints.average([2, 4], named_variables(fresh))
    expected = (averages[1] + averages[3]) / 2
    np.testing.assert_allclose(named_variables(fresh)["model/embedding/table"], expected, atol=1e-6)
    again = make_trainer(tmp_path, text, vocabularies, training=training)
    assert again.resume()
    assert_same(snapshot(again), snapshot(trainer))


_PROCESS = """
import pathlib, sys
import tensorflow as tf
tests, run_dir, replicas, steps = sys.argv[1:]
cpu, one = tf.config.list_physical_devices("CPU")[0], tf.config.LogicalDeviceConfiguration()
tf.config.set_logical_device_configuration(cpu, [one] * int(replicas))
sys.path.insert(0, tests)
from test_trainer import *
from test_trainer import MODEL, TRAINING
text = demo_text()
vocabularies = Vocabularies.learn(text.source, text.target, vocab_size=500)
training = dataclasses.replace(TRAINING, checkpoint_steps=1, steps=int(steps))
strategy = make_strategy("single" if replicas == "1" else "mirrored")
trainer = make_trainer(pathlib.Path(run_dir), text, vocabularies, MODEL, training, strategy)
trainer.resume()
print("ready", flush=True)
trainer.train()
np.savez(pathlib.Path(run_dir) / "end.npz", **snapshot(trainer))
"""


def start(run_dir, replicas, steps):
    """A training in a process of its own, which has just begun or gone on."""
    folder = str(pathlib.Path(__file__).parent)
    command = [sys.executable, "-c", _PROCESS, folder, str(run_dir), str(replicas), str(steps)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "kills"), [(1, 10), (2, 1)])
def test_kill_9_at_any_moment_loses_nothing_but_the_time_since(tmp_path, replicas, kills):
    """A checkpoint after every update makes most moments ones of writing."""
    generator = np.random.default_rng(7)
    wait = 2.0 if replicas == 1 else 25.0  # (several devices trace each shape anew)
    for _ in range(kills):
        process = start(tmp_path / "killed", replicas, 100_000)
        time.sleep(generator.uniform(wait, wait + 10.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    steps = Checkpoints(tmp_path / "killed" / "checkpoints").steps()[-1]
    assert steps > kills
    ends = []
    for name in ("killed", "whole"):
        assert start(tmp_path / name, replicas, steps + 1).wait() == 0
        ends.append(dict(np.load(tmp_path / name / "end.npz")))
    assert_same(*ends)


@pytest.mark.slow
def test_two_hundred_pairs_are_learnt_by_heart(tmp_path, text, vocabularies):
    training = dataclasses.replace(
        TRAINING,
        steps=700,
        batch_tokens=1500,
        label_smoothing=0.0,
        warmup_steps=150,
        schedule_factor=0.5,
        cooldown_steps=250,
        checkpoint_steps=1000,
    )
    model = MODEL.replace(dropout=0.0, num_layers=2, d_model=96, d_ff=192, norm="pre")
    trainer = make_trainer(tmp_path, text, vocabularies, model, training)
    trainer.train()
    translate = Translator.from_model(trainer.model, vocabularies)
    for beam_size in (1, 4):
        found = translate(text.source, beam_size=beam_size)
        right = sum(map(str.__eq__, found, text.target))
        print(f"beam {beam_size}: {right} of {len(text)} exact")
        assert right == len(text)
