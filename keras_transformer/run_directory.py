"""A run's folder: everything that another machine needs to go on from it or to use it.

`config.json` (all settings, resolved), `vocab/`, `checkpoints/`, `tensorboard/`, `metrics.jsonl`
and `report.json`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib

from keras_transformer.config import DataConfig, DecodingConfig, TrainingConfig, TransformerConfig
from keras_transformer.model import build_transformer
from keras_transformer.presets import find_preset
from keras_transformer.text.lines import write_bytes
from keras_transformer.text.vocabulary import Vocabularies
from keras_transformer.training.checkpoints import Checkpoints, named_variables


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """All settings of a run."""

    model: TransformerConfig
    training: TrainingConfig
    decoding: DecodingConfig
    data: DataConfig

    def to_dict(self) -> dict:
        """All settings, part by part, ready for JSON."""
        return {f.name: getattr(self, f.name).to_dict() for f in dataclasses.fields(self)}

    @classmethod
    def from_preset(
        cls, name: str, data: dict | None = None, settings: list[str] | None = None
    ) -> RunConfig:
        """The settings of a preset, with some replaced.

        Args:
            name: The preset's.
            data: Fields of `DataConfig`.
            settings: Overrides as "PART.FIELD=VALUE", such as "model.num_layers=4"; the value is
                JSON, or a word as it stands.

        Raises:
            ValueError: A name is unknown, or a value does not fit.
        """
        preset = find_preset(name)
        data_config = DataConfig().replace(**(data or {}))
        config = cls(preset.model, preset.training, preset.decoding, data_config)
        parts = [f.name for f in dataclasses.fields(cls)]
        changes: dict[str, dict] = {part: {} for part in parts}
        for setting in settings or []:
            key, equals, value = setting.partition("=")
            part, dot, field = key.partition(".")
            if not equals or not dot or part not in parts:
                raise ValueError(
                    "A setting should be PART.FIELD=VALUE, with PART one of "
                    f"{', '.join(parts)}. Received: {setting!r}."
                )
            try:
                changes[part][field] = json.loads(value)
            except json.JSONDecodeError:
                changes[part][field] = value
        return cls(**{part: getattr(config, part).replace(**changes[part]) for part in parts})

    @classmethod
    def load(cls, run_dir: str | os.PathLike) -> RunConfig:
        """The settings in a run's folder.

        Raises:
            ValueError: It is no run's folder, or its `config.json` does not fit this version.
        """
        path = pathlib.Path(run_dir) / "config.json"
        try:
            parts = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                TransformerConfig.from_dict(parts["model"]),
                TrainingConfig.from_dict(parts["training"]),
                DecodingConfig.from_dict(parts["decoding"]),
                DataConfig.from_dict(parts["data"]),
            )
        except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(
                f"{run_dir} is not a run's folder: {path} cannot be read ({error}). Expected what "
                "trainers/train_wmt.py writes to --run-dir."
            ) from error


def write_json(path: str | os.PathLike, values) -> None:
    """Writes values as JSON, at once or not at all."""
    write_bytes(path, (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode("utf-8"))


def run_checkpoints(run_dir: str | os.PathLike, config: RunConfig) -> Checkpoints:
    """The checkpoints of a run."""
    training = config.training
    folder = pathlib.Path(run_dir) / "checkpoints"
    return Checkpoints(folder, training.keep_checkpoints, training.checkpoint_steps)


def load_run(run_dir: str | os.PathLike, checkpoint: str | int = "average"):
    """The trained model of a run.

    Args:
        run_dir: Its folder.
        checkpoint: "average" of the last ones, "best", "last", or a step's number.

    Returns:
        The Keras model, its `Vocabularies` and its `DecodingConfig`.

    Raises:
        ValueError: It is no run's folder, has no such checkpoint, or the parts do not fit.

    Example:
        >>> model, vocabularies, decoding = load_run("runs/demo", "best")
    """
    run_dir = pathlib.Path(run_dir)
    config = RunConfig.load(run_dir)
    vocabularies = Vocabularies.load(run_dir / "vocab")
    checkpoints = run_checkpoints(run_dir, config)
    steps = checkpoints.steps()
    if not steps:
        raise ValueError(f"{run_dir} has no checkpoint yet. Train it first.")
    if checkpoint == "average":
        chosen = checkpoints.last(config.training.average_last)
    elif checkpoint in ("best", "last"):
        chosen = [checkpoints.best() if checkpoint == "best" else steps[-1]]
    else:
        chosen = [int(checkpoint)] if str(checkpoint).isdigit() else [checkpoint]
    if not set(chosen) <= set(steps):
        raise ValueError(
            f"{run_dir} has no checkpoint {checkpoint!r}. There are 'average', 'best', 'last' and "
            f"the steps {', '.join(map(str, steps))}."
        )
    found = checkpoints.state(chosen[-1])["identity"].get("vocabulary")
    if found != vocabularies.fingerprint:
        raise ValueError(
            f"The vocabulary in {run_dir / 'vocab'} (fingerprint {vocabularies.fingerprint[:12]}) "
            f"is not the one that its checkpoints were trained with ({str(found)[:12]}). Put the "
            "right vocab/ folder there."
        )
    model = build_transformer(config.model)
    checkpoints.average(chosen, named_variables(model))
    return model, vocabularies, config.decoding
