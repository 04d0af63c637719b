"""The training loop: updates, checkpoints, evaluations, and going on where it stopped."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import random
import signal
import threading
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import TrainingConfig
from keras_transformer.data.batching import Bucket, TokenBatches
from keras_transformer.training.checkpoints import (
    Checkpoints,
    moving_averages,
    named_variables,
)
from keras_transformer.training.figures import Figures
from keras_transformer.training.optimizer import paper_optimizer
from keras_transformer.training.step import TrainStep
from keras_transformer.training.workers import Workers

_RECORD_STEPS = 50  # updates between figures


class Interrupted(Exception):
    """Training was stopped from outside (Ctrl-C, SIGTERM); its state was saved first."""


@dataclasses.dataclass
class Progress:
    """Where training is. Saved in every checkpoint.

    Attributes:
        step: Updates done.
        part, batch: The next batch: of which part of the data (of data in memory an epoch is one
            part; see `TokenBatches`), and its place there.
        seconds: Of training so far, evaluations left out, resumes included.
        tokens: Real target tokens trained on.
        flops: Floating point operations spent on them.
        evaluated: The update after which validation was last done.
        best_bleu: The best validation BLEU.
        recent: Sums of loss, nll and tokens since figures were last recorded.
    """

    step: int = 0
    part: int = 0
    batch: int = 0
    seconds: float = 0.0
    tokens: float = 0.0
    flops: float = 0.0
    evaluated: int = 0
    best_bleu: float = -1.0
    recent: list[float] = dataclasses.field(default_factory=lambda: [0.0, 0.0, 0.0])


class Trainer:
    """Trains a model on token batches.

    Args:
        make_model: Makes the Keras model; called in the strategy's scope.
        config: How to train.
        d_model: The model's width, for the schedule.
        batches: The training data.
        strategy: A `tf.distribute` strategy.
        run_dir: Gets `checkpoints/`, `metrics.jsonl` and `tensorboard/`.
        identity: What a checkpoint must agree in with this run to be gone on from (the model's
            configuration, the vocabulary's fingerprint), as JSON.
        evaluate: Called now and then with the trainer; returns figures to record ("bleu" decides
            which checkpoint is best).
        on_step: Called after each update with the progress, the loss a token and the perplexity.
        batch_flops: The floating point operations of an update from a batch of that bucket.
    """

    def __init__(
        self,
        make_model: Callable[[], keras.Model],
        config: TrainingConfig,
        d_model: int,
        batches: TokenBatches,
        strategy: tf.distribute.Strategy,
        run_dir: pathlib.Path,
        identity: dict | None = None,
        evaluate: Callable[[Trainer], dict] | None = None,
        on_step: Callable[[Progress, float, float], None] | None = None,
        batch_flops: Callable[[Bucket], float] = lambda bucket: 0.0,
    ):
        self.config, self.batches, self.identity = config, batches, identity or {}
        self.evaluate, self.on_step, self.batch_flops = evaluate, on_step, batch_flops
        # Keras draws the seeds of initialisers and dropout from Python's generator. (Its own
        # set_random_seed also clears TensorFlow's kernels, and with them loaded tokenizers.)
        random.seed(config.seed)
        with strategy.scope():
            self.model = make_model()
            self.optimizer = paper_optimizer(
                d_model,
                config.warmup_steps,
                config.schedule_factor,
                config.steps,
                config.cooldown_steps,
                beta_1=config.adam_beta1,
                beta_2=config.adam_beta2,
                epsilon=config.adam_epsilon,
                **({"use_ema": True, "ema_momentum": config.ema_decay} if config.ema_decay else {}),
            )
        self.step = TrainStep(
            self.model,
            self.optimizer,
            config.label_smoothing,
            strategy,
            config.jit_compile,
            config.device_tokens,
            config.clip_norm,
        )
        self.variables = named_variables(self.model, self.optimizer)
        if self.step.loss_scale is not None:
            self.variables["loss_scale/factor"] = self.step.loss_scale.factor
            self.variables["loss_scale/calm"] = self.step.loss_scale.calm
        self.checkpoints = Checkpoints(
            run_dir / "checkpoints", config.keep_checkpoints, config.checkpoint_steps
        )
        self.progress = Progress()
        self.workers, self._figures = Workers(strategy), Figures(run_dir)

    def resume(self) -> bool:
        """Goes on from the run's newest checkpoint; False where there is none.

        Raises:
            ValueError: The checkpoint is of another model or vocabulary, or none is whole.
        """
        state = None
        if self.workers.is_chief:
            state = self.checkpoints.restore_latest(self.variables, self._check_identity)
        state = json.loads(self.workers.from_chief(json.dumps(state).encode()))
        if state is None:
            return False
        self.workers.variables_from_chief(self.variables.values())
        known = {field.name for field in dataclasses.fields(Progress)}
        self.progress = Progress(**{k: v for k, v in state["progress"].items() if k in known})
        if self.workers.is_chief:
            self._figures.forget_after(self.progress.step)
        return True

    def train(self) -> None:
        """Trains until `steps` or `max_minutes`, then saves.

        Raises:
            Interrupted: On Ctrl-C or SIGTERM, once the update is done and the state saved.
            FloatingPointError: The loss is not finite; the last checkpoint stays as it was.
        """
        config, progress = self.config, self.progress
        with _StopSignal() as stop:
            if progress.step and progress.step % config.evaluate_steps == 0:
                self._evaluate()  # where a run was stopped between an update and its evaluation
            while not self._finished():
                part = self.batches.part(progress.part)
                while progress.batch < len(part):
                    self._update(*part[progress.batch])
                    if is_last := progress.batch == len(part):
                        progress.part, progress.batch = progress.part + 1, 0
                    if progress.step % config.checkpoint_steps == 0:
                        self.save()
                    if progress.step % config.evaluate_steps == 0:
                        self._evaluate()
                    if self.workers.any(stop.received):
                        self.save()
                        raise Interrupted
                    if is_last or self._finished():
                        break
        if progress.step not in self.checkpoints.steps():
            self.save()
        self._evaluate()

    def save(self) -> None:
        """Writes a checkpoint of this very moment (of several processes, the chief does)."""
        if not self.workers.is_chief:
            return
        for name, variable in self.variables.items():
            if variable.dtype.is_floating and not np.isfinite(variable.numpy()).all():
                raise FloatingPointError(
                    f"{name} is not finite after update {self.progress.step}. The last checkpoint "
                    "is kept. Lower schedule_factor, raise warmup_steps, or train in float32."
                )
        state = {"progress": dataclasses.asdict(self.progress), "identity": self.identity}
        self.checkpoints.save(self.progress.step, self.variables, state)

    def record(self, figures: dict) -> None:
        """Appends figures of this update to the run's; see `Figures`."""
        if self.workers.is_chief:
            self._figures.record(self.progress.step, figures)

    def _finished(self) -> bool:
        limit = self.config.max_minutes
        if self.progress.step >= self.config.steps:
            return True
        # (Each process has a clock of its own.)
        return limit is not None and self.workers.any(self.progress.seconds >= 60 * limit)

    def _update(self, bucket, arrays) -> None:
        progress, start = self.progress, time.perf_counter()
        result = self.step(*arrays)
        sound = math.isfinite(result.loss) and math.isfinite(result.gradient_norm)
        if not sound and not result.skipped:
            raise FloatingPointError(
                f"The loss is {result.loss} and the gradient's norm {result.gradient_norm} at "
                f"update {progress.step + 1} (part "
                f"{progress.part}, batch {progress.batch}, learning rate "
                f"{float(self.optimizer.learning_rate):.2e}). The last checkpoint is kept. Lower "
                "schedule_factor, raise warmup_steps, or train in float32."
            )
        progress.step += 1
        progress.batch += 1
        progress.tokens += result.tokens
        progress.flops += self.batch_flops(bucket)
        progress.seconds += time.perf_counter() - start
        if self.on_step is not None:
            self.on_step(progress, *_per_token(result.loss, result.nll, result.tokens))
        new = (result.loss, result.nll, result.tokens)
        progress.recent = [old + value for old, value in zip(progress.recent, new, strict=True)]
        if progress.step % _RECORD_STEPS == 0:
            loss, perplexity = _per_token(*progress.recent)
            progress.recent = [0.0, 0.0, 0.0]
            self.record(
                {
                    "loss": loss,
                    "perplexity": perplexity,
                    **({"gradient_norm": result.gradient_norm} if sound else {}),
                    "learning_rate": float(self.optimizer.learning_rate),
                    "tokens_per_second": progress.tokens / progress.seconds,
                    "minutes": progress.seconds / 60,
                }
            )

    def _evaluate(self) -> None:
        if self.evaluate is None or self.progress.evaluated == self.progress.step:
            return
        self.progress.evaluated = self.progress.step
        with moving_averages(self.variables):
            figures = self.evaluate(self)
        self.record({f"valid_{name}": value for name, value in figures.items()})
        # In this order, so that whenever it is stopped the mark is on a checkpoint that is there.
        self.save()
        if self.workers.is_chief and figures.get("bleu", -1.0) > self.progress.best_bleu:
            self.checkpoints.mark_best(self.progress.step)
            self.progress.best_bleu = figures["bleu"]
            self.save()

    def _check_identity(self, state: dict) -> None:
        for name, expected in self.identity.items():
            found = state.get("identity", {}).get(name)
            if found != json.loads(json.dumps(expected)):
                raise ValueError(
                    f"The checkpoints in {self.checkpoints.folder} were trained with another "
                    f"{name}: {_difference(found, expected)}. Give another run directory, or "
                    "the settings of the run that wrote them."
                )


def _per_token(loss: float, nll: float, tokens: float) -> tuple[float, float]:
    """Loss a token and perplexity, of sums."""
    tokens = max(tokens, 1.0)
    return loss / tokens, math.exp(min(nll / tokens, 50.0))


def _difference(found, expected) -> str:
    """What differs, in a few words."""
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return f"{found} there, {expected} now"
    names = [n for n in expected if found.get(n) != expected[n]]
    return "; ".join(f"{n} is {found.get(n)!r} there and {expected[n]!r} now" for n in names)


class _StopSignal:
    """Notes Ctrl-C and SIGTERM while it is entered, so that no update is cut in half.

    A second one acts as it always does.
    """

    def __init__(self):
        self.received, self._previous = False, {}

    def __enter__(self) -> _StopSignal:
        if threading.current_thread() is threading.main_thread():  # only there they can be caught
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _note(self, *_) -> None:
        self.received = True
        self.__exit__()
