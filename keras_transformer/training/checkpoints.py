"""Checkpoints: all that training needs to go on, as one atom; and their averages (section 6.1).

A checkpoint is a folder `step-00001500`: the variables in TensorFlow's own format (which carries
checksums) and `state.json`. It is written under another name and renamed when whole.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import warnings
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_transformer.files import write_bytes

_NAME = re.compile(r"step-(\d{8,})$")
_PREFIX = "variables"


def named_variables(model, optimizer=None) -> dict[str, tf.Variable]:
    """All variables by a name that is the same in every process.

    Weights are "model/<path>", an optimiser's "optimizer/<path>", and the dropout layers' random
    states "random/<number>".
    """
    weights = {id(variable) for variable in model.weights}
    states = [variable for variable in model.variables if id(variable) not in weights]
    named = {f"model/{variable.path}": variable.value for variable in model.weights}
    named |= {f"random/{i}": variable.value for i, variable in enumerate(states)}
    if optimizer is not None:
        # Without the optimiser's own name, which Keras counts up: adam, adam_1, ...
        paths = [variable.path.split("/", 1)[-1] for variable in optimizer.variables]
        named |= {
            f"optimizer/{path}": variable.value
            for path, variable in zip(paths, optimizer.variables, strict=True)
        }
    return named


def _average_of(name: str) -> str:
    """The name of a weight's moving average, which a Keras optimizer with `use_ema` keeps."""
    return f"optimizer/{name.removeprefix('model/').replace('/', '_')}_average"


@contextlib.contextmanager
def moving_averages(variables: dict[str, tf.Variable]):
    """While it is entered the weights hold their moving averages, where the optimiser keeps any.

    Args:
        variables: All of them, by name.

    Example:
        >>> with moving_averages(named_variables(model, optimizer)):
        ...     model([source, target])
    """
    averages = {name: _average_of(name) for name in variables if name.startswith("model/")}
    before = {n: variables[n].numpy() for n, average in averages.items() if average in variables}
    for name in before:
        variables[name].assign(variables[averages[name]].numpy())
    try:
        yield
    finally:
        for name, value in before.items():
            variables[name].assign(value)


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: Where they are; made when the first is saved.
        keep: How many of the newest regular ones stay. The best and the very newest stay besides.
        every: A regular one's step is a multiple of this. The others (saved on Ctrl-C, say) come
            and go, so that a run that was stopped averages the same ones as one that was not.

    Example:
        >>> checkpoints = Checkpoints("runs/demo/checkpoints", keep=5)
        >>> checkpoints.save(100, named_variables(model, optimizer), {"epoch": 3})
        >>> state = checkpoints.restore_latest(named_variables(model, optimizer))
    """

    def __init__(self, folder: str | os.PathLike, keep: int = 5, every: int = 1):
        self.folder, self.keep, self.every = pathlib.Path(folder), keep, every

    def steps(self) -> list[int]:
        """The steps of the whole checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        matches = (_NAME.match(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def last(self, count: int) -> list[int]:
        """The steps of the very newest checkpoint and the regular ones before it, oldest first."""
        steps = self.steps()
        return sorted({*self._regular(steps), *steps[-1:]})[-count:]

    def _regular(self, steps: list[int]) -> list[int]:
        """The regular ones of these; all, if none is."""
        return [step for step in steps if step % self.every == 0] or steps

    def path(self, step: int) -> pathlib.Path:
        return self.folder / f"step-{step:08d}"

    def save(self, step: int, variables: dict[str, tf.Variable], state: dict) -> pathlib.Path:
        """Writes a checkpoint, then removes those no longer kept.

        Args:
            step: Its number. Where it is there already, the variables are the same, and only the
                state is written anew.
            variables: By name.
            state: Whatever else training needs, as JSON.
        """
        path, content = self.path(step), json.dumps({"step": step, **state}, indent=1).encode()
        if path.exists():
            write_bytes(path / "state.json", content)
            return path
        temporary = self.folder / f".writing-{step:08d}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        tf.raw_ops.SaveV2(
            prefix=str(temporary / _PREFIX),
            tensor_names=list(variables),
            shape_and_slices=[""] * len(variables),
            tensors=[variable.read_value() for variable in variables.values()],
        )
        write_bytes(temporary / "state.json", content)
        os.replace(temporary, path)
        self._prune()
        return path

    def mark_best(self, step: int) -> None:
        """Remembers that this checkpoint is the best so far; it is then never removed."""
        write_bytes(self.folder / "best.json", json.dumps({"step": step}).encode())

    def best(self) -> int | None:
        """The step of the best checkpoint, None where none was marked."""
        path = self.folder / "best.json"
        if not path.exists():
            return None
        try:
            return int(json.loads(path.read_text())["step"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} should name the best checkpoint's step. It cannot be read: {error!r}. "
                "Remove it; the next evaluation that is better writes it anew."
            ) from error

    def state(self, step: int) -> dict:
        """What was saved beside the variables."""
        path = self.path(step) / "state.json"
        try:
            return json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise _DamagedError(f"{path} cannot be read: {error}") from error

    def restore(
        self,
        step: int,
        variables: dict[str, tf.Variable],
        check: Callable[[dict], None] | None = None,
    ) -> dict:
        """Reads a checkpoint into all of these variables.

        Args:
            step: Which.
            variables: By name.
            check: Called with what was saved beside them before they are read; may raise.

        Returns:
            What was saved beside them.

        Raises:
            ValueError: It is damaged, or lacks one of the variables, or a shape differs.
        """
        state = self.state(step)
        if check is not None:
            check(state)
        values = self._read(step, variables)
        for name, variable in variables.items():
            variable.assign(values[name])
        return state

    def restore_latest(
        self, variables: dict[str, tf.Variable], check: Callable[[dict], None] | None = None
    ) -> dict | None:
        """Reads the newest checkpoint that is whole; None where there is none. See `restore`.

        A damaged one is passed over with a warning that names it and the one before, and renamed,
        so that it is neither averaged nor taken for the one that training saves there again.
        """
        damaged = []
        steps = self.steps()[::-1]
        for step, before in itertools.zip_longest(steps, steps[1:]):
            try:
                state = self.restore(step, variables, check)
            except (OSError, _DamagedError) as error:
                if before is None:
                    raise ValueError(f"No checkpoint in {self.folder} is whole: {error}") from error
                warnings.warn(
                    f"The checkpoint {self.path(step)} is damaged ({error}); going on from the "
                    f"one before, {self.path(before)}.",
                    stacklevel=2,
                )
                damaged.append(step)
            else:
                for path in map(self.path, damaged):
                    aside = path.with_name(f"damaged-{path.name}")
                    shutil.rmtree(aside, ignore_errors=True)
                    os.replace(path, aside)
                return state
        return None

    def average(self, steps: list[int], variables: dict[str, tf.Variable]) -> None:
        """Sets variables to their mean over several checkpoints.

        Where these hold moving averages of the weights, to the mean of those.

        Args:
            steps: Which checkpoints.
            variables: The weights, by name (`named_variables(model)`); others stay as they are.
        """
        weights = {name: v for name, v in variables.items() if name.startswith("model/")}
        means = {name: np.zeros(v.shape, np.float64) for name, v in weights.items()}
        for step in steps:
            for name, value in self._read(step, weights, averages=True).items():
                means[name] += value.astype(np.float64) / len(steps)
        for name, variable in weights.items():
            variable.assign(means[name].astype(variable.dtype.as_numpy_dtype))

    def _read(self, step: int, variables, averages=False) -> dict[str, np.ndarray]:
        """Values by name; with `averages` a weight's moving average for it, where there is one."""
        path = self.path(step)
        try:
            reader = tf.train.load_checkpoint(str(path / _PREFIX))
            shapes = reader.get_variable_to_shape_map()
            for name, variable in variables.items():
                if name not in shapes or tuple(shapes[name]) != tuple(variable.shape):
                    raise ValueError(
                        f"{path} does not fit this model: {name} should have the shape "
                        f"{tuple(variable.shape)}. Received: {shapes.get(name, 'no such variable')}"
                        ". Train with the configuration that wrote it, or into another folder."
                    )
            stored = {name: _average_of(name) if averages else name for name in variables}
            return {
                name: reader.get_tensor(other if other in shapes else name)
                for name, other in stored.items()
            }
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            what = str(error).splitlines()[0]
            raise _DamagedError(f"{path} cannot be read: {what}") from error

    def _prune(self) -> None:
        steps = self.steps()
        kept = {*self._regular(steps)[-self.keep :], steps[-1], self.best()}
        for step in set(steps) - kept:
            shutil.rmtree(self.path(step))
        for path in self.folder.glob(".writing-*"):
            shutil.rmtree(path)


class _DamagedError(ValueError):
    """A checkpoint whose files cannot be read."""
