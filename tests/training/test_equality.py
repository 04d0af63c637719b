"""However a batch is split, over devices or passes, the gradients and losses are the same."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.corpus import read_parallel_files
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.model import build_transformer
from keras_transformer.text.vocabulary import Vocabularies
from keras_transformer.training.checkpoints import moving_averages, named_variables
from keras_transformer.training.loss import SmoothedCrossEntropy
from keras_transformer.training.optimizer import FusedAdam, paper_optimizer
from keras_transformer.training.step import TrainStep

UPDATES, FITTED = 5, 2  # (fit is traced anew for each shape)
CONFIG = TransformerConfig(
    vocab_size=500, num_layers=1, d_model=32, d_ff=64, num_heads=4, dropout=0.0
)


class Keep(FusedAdam):
    """Puts the gradient where the weight was, so that it can be read."""

    def update_step(self, gradient, variable, learning_rate):
        variable.assign(gradient)


def measure(folder: pathlib.Path, name: str, strategy=None, device_tokens=None):
    """Writes gradients from given weights, and the losses of a short training."""
    strategy = strategy or tf.distribute.get_strategy()
    arrays = np.load(folder / "batches.npz")
    batches = [[arrays[f"{kind}{i}"] for kind in "sio"] for i in range(UPDATES)]
    with strategy.scope():
        model = build_transformer(CONFIG)
        keep = Keep(1.0)
        adam = paper_optimizer(32, warmup_steps=10, use_ema=True, ema_momentum=0.75)
    gradients = TrainStep(model, keep, 0.1, strategy, device_tokens=device_tokens)
    training = TrainStep(model, adam, 0.1, strategy, device_tokens=device_tokens)
    results = {}

    def set_weights(seed):
        generator = np.random.default_rng(seed)
        for weight in model.trainable_variables:
            weight.assign(generator.normal(0, 0.2, weight.shape))

    def copies(variable):
        return [copy.numpy() for copy in strategy.experimental_local_results(variable.value)]

    for i, batch in enumerate(batches):
        set_weights(i)
        results[f"norm{i}"] = gradients(*batch).gradient_norm
        for weight in model.trainable_variables:
            results[f"gradient{i}/{weight.path}"] = weight.numpy()
    set_weights(99)
    variables, table, average = named_variables(model, adam), "model/embedding/table", None
    for i, batch in enumerate(batches):
        result = training(*batch)
        weight = variables[table].numpy()
        average = weight if average is None else 0.75 * average + 0.25 * weight
        results[f"loss{i}"] = result.loss / result.tokens
        valid = training.evaluate(*batches[0])
        results[f"valid{i}"] = valid.loss / valid.tokens
    with moving_averages(variables):
        np.testing.assert_allclose(variables[table].numpy(), average, rtol=1e-5, atol=1e-7)
    set_weights(99)
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):  # Keras's fit cannot
        for i, loss in enumerate(fit(model, strategy, batches[:FITTED])):
            results[f"loss_fit{i}"] = loss
    for variable in (*model.trainable_variables, *adam.variables):
        first, *others = copies(variable)
        assert all(np.array_equal(first, other) for other in others), variable.path
    np.savez(folder / f"{name}.npz", **results)


def fit(model, strategy, batches):
    """The losses of the same training by `model.fit`."""
    with strategy.scope():
        model.compile(paper_optimizer(32, warmup_steps=10), loss=SmoothedCrossEntropy(0.1))
    for batch in batches:
        # Keras's fit wants equally many rows for each replica; rows of padding change nothing.
        rows = ((0, -len(batch[0]) % 4), (0, 0))
        source, target_in, target_out = (np.pad(array, rows) for array in batch)
        data = tf.data.Dataset.from_tensor_slices(((source, target_in), target_out))
        yield model.fit(data.batch(len(source)), shuffle=False, verbose=0).history["loss"][0]


_REPLICAS = """
import pathlib, sys
import tensorflow as tf
sys.path.insert(0, sys.argv[1])
replicas = int(sys.argv[3])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
from keras_transformer.training.strategy import make_strategy
from test_equality import measure
measure(pathlib.Path(sys.argv[2]), sys.argv[3], make_strategy("mirrored"))
"""


@pytest.fixture(scope="module")
def one_device(tmp_path_factory, real_data):
    """Five ragged batches of real sentences, and what one device makes of them at once."""
    folder = tmp_path_factory.mktemp("equality")
    multi30k = real_data / "multi30k"
    text = read_parallel_files(multi30k / "val.en.gz", multi30k / "val.de.gz")
    vocabularies = Vocabularies.learn(text.source, text.target, vocab_size=CONFIG.vocab_size)
    batches = TokenBatches(encode_pairs(text, vocabularies, 100), 600, num_buckets=4, seed=1)
    part = batches.part(0)
    plan = [part[i] for i in range(UPDATES)]
    assert len({bucket for bucket, _ in plan}) > 1
    arrays = {
        f"{kind}{i}": array
        for i, (_, batch) in enumerate(plan)
        for kind, array in zip("sio", batch, strict=True)
    }
    # The second batch leaves only its first pair, so all replicas and passes but one have none.
    for kind in "sio":
        arrays[f"{kind}1"] = arrays[f"{kind}1"] * (np.arange(len(arrays["s1"]))[:, None] < 1)
    np.savez(folder / "batches.npz", **arrays)
    measure(folder, "one")
    return folder


def assert_equal(folder, name):
    one, other = np.load(folder / "one.npz"), np.load(folder / f"{name}.npz")
    assert other.keys() <= one.keys() and len(other.keys()) > 5 * UPDATES
    for i in range(FITTED):
        np.testing.assert_allclose(one[f"loss_fit{i}"], one[f"loss{i}"], rtol=1e-5)
    for key in other:
        difference = np.linalg.norm(one[key] - other[key])
        bound = 1e-6 if key.startswith(("loss", "valid")) else 1e-5
        assert difference <= bound * max(np.linalg.norm(one[key]), 1e-9), key


@pytest.mark.slow
def test_passes_one_after_the_other_are_one_batch(one_device):
    measure(one_device, "passes", device_tokens=150)
    assert_equal(one_device, "passes")


@pytest.mark.slow
@pytest.mark.parametrize("replicas", ["2", "4"])
def test_replicas_are_one_device(one_device, replicas):
    command = [sys.executable, "-c", _REPLICAS, str(pathlib.Path(__file__).parent)]
    result = subprocess.run(
        [*command, str(one_device), replicas], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert_equal(one_device, replicas)


_WORKER = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from keras_transformer.training.strategy import make_strategy
strategy = make_strategy("auto")
from test_equality import measure
measure(pathlib.Path(sys.argv[2]), "worker" + sys.argv[3], strategy)
"""


@pytest.mark.slow
def test_two_worker_processes_are_one_device(one_device, start_workers):
    command = [sys.executable, "-c", _WORKER, str(pathlib.Path(__file__).parent), str(one_device)]
    for process in start_workers([*command, "0"], [*command, "1"]):
        _, error = process.communicate(timeout=900)
        assert process.returncode == 0, error[-3000:]
    assert_equal(one_device, "worker0")
    assert_equal(one_device, "worker1")
