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
from keras_transformer.files import check_new, new_folder, write_bytes
from keras_transformer.model import build_transformer
from keras_transformer.presets import find_preset
from keras_transformer.text.vocabulary import Vocabularies
from keras_transformer.training.checkpoints import Checkpoints, named_variables

_UNREADABLE = (
    OSError,
    UnicodeDecodeError,
    json.JSONDecodeError,
    RecursionError,  # brackets nested too deep
    KeyError,
    TypeError,
)


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
        """The settings of a preset, with some replaced; see `replace`."""
        preset = find_preset(name)
        config = cls(preset.model, preset.training, preset.decoding, DataConfig())
        return config.replace(data, settings)

    @classmethod
    def load(cls, path: str | os.PathLike) -> RunConfig:
        """The settings in a run's folder, or in a file such as its `config.json`.

        Raises:
            ValueError: It is neither, or does not fit this version.
        """
        path = pathlib.Path(path)
        file = path / "config.json" if path.is_dir() else path
        try:
            parts = json.loads(file.read_text(encoding="utf-8"))
            if unknown := set(parts) - {field.name for field in dataclasses.fields(cls)}:
                raise KeyError(f"unknown parts: {', '.join(sorted(unknown))}")
            return cls(
                TransformerConfig.from_dict(parts["model"]),
                TrainingConfig.from_dict(parts["training"]),
                DecodingConfig.from_dict(parts["decoding"]),
                DataConfig.from_dict(parts["data"]),
            )
        except _UNREADABLE as error:
            raise ValueError(
                f"{path} is not a run's folder: {file} cannot be read ({error!r}). Expected what "
                "trainers/train_wmt.py writes to --run-dir, or with --dump-config."
            ) from error

    def replace(self, data: dict | None = None, settings: list[str] | None = None) -> RunConfig:
        """A copy with some settings replaced.

        Args:
            data: Fields of `DataConfig`.
            settings: Overrides as "PART.FIELD=VALUE", such as "model.num_layers=4"; the value is
                JSON, or a word as it stands.

        Raises:
            ValueError: A name is unknown, or a value does not fit.
        """
        parts = [f.name for f in dataclasses.fields(self)]
        changes: dict[str, dict] = {part: {} for part in parts}
        changes["data"] |= data or {}
        for setting in settings or []:
            key, equals, value = setting.partition("=")
            part, dot, field = key.partition(".")
            if not equals or not dot or part not in parts:
                raise ValueError(
                    "A setting should be PART.FIELD=VALUE, with PART one of "
                    f"{', '.join(parts)}. Received: {setting!r}."
                )
            changes[part][field] = parse_value(value)
        return RunConfig(**{part: getattr(self, part).replace(**changes[part]) for part in parts})


def parse_value(text: str):
    """A setting's value: JSON, or a word as it stands."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def parse_fields(settings: list[str], part: str) -> dict:
    """Settings of one part by name, each given as "FIELD=VALUE" or "PART.FIELD=VALUE".

    Raises:
        ValueError: One has no "=".
    """
    fields = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set should be FIELD=VALUE. Received: {setting!r}.")
        fields[name.removeprefix(f"{part}.")] = parse_value(value)
    return fields


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
    checkpoints = run_checkpoints(run_dir, config)
    steps = checkpoints.steps()
    if not steps:
        raise ValueError(f"{run_dir} has no checkpoint yet. Train it first.")
    if checkpoint == "average":
        chosen = checkpoints.last(config.training.average_last)
    elif checkpoint in ("best", "last"):
        chosen = [checkpoints.best() if checkpoint == "best" else steps[-1]]
    else:
        chosen = [int(checkpoint)] if str(checkpoint).isdecimal() else [checkpoint]
    if not set(chosen) <= set(steps):
        raise ValueError(
            f"{run_dir} has no checkpoint {checkpoint!r}. There are 'average', 'best', 'last' and "
            f"the steps {', '.join(map(str, steps))}."
        )
    model, vocabularies = _averaged_model(run_dir, config, chosen)
    return model, vocabularies, config.decoding


def load_runs(run_dirs, checkpoints: str | int | list = "average"):
    """The trained models of one run or several, for one translator.

    Args:
        run_dirs: A run's folder, or a list of them.
        checkpoints: See `load_run`; one for all, or a list: several of one run, or one for each.

    Returns:
        A list of Keras models, their `Vocabularies` and the first's `DecodingConfig`.

    Raises:
        ValueError: As `load_run`; or the vocabularies differ, or the lists do not fit.

    Example:
        >>> models, vocabularies, decoding = load_runs("runs/demo", [1000, 1200])
    """
    run_dirs = list(run_dirs) if isinstance(run_dirs, (list, tuple)) else [run_dirs]
    several = isinstance(checkpoints, (list, tuple))
    checkpoints = list(checkpoints) if several else [checkpoints] * len(run_dirs)
    if len(run_dirs) == 1:
        run_dirs *= len(checkpoints)
    if len(run_dirs) != len(checkpoints) or not run_dirs:
        raise ValueError(
            "There should be one checkpoint for all runs, one for each, or several of one run. "
            f"Received: {len(run_dirs)} runs and {len(checkpoints)} checkpoints."
        )
    loaded = [load_run(*pair) for pair in zip(run_dirs, checkpoints, strict=True)]
    models, vocabularies, configs = zip(*loaded, strict=True)
    for run_dir, other in zip(run_dirs, vocabularies, strict=True):
        if other.fingerprint != vocabularies[0].fingerprint:
            raise ValueError(
                f"The models of an ensemble should have one vocabulary. {run_dir} and "
                f"{run_dirs[0]} have different ones: train one with the other's vocab/ folder."
            )
    return list(models), vocabularies[0], configs[0]


def average_run(run_dir: str | os.PathLike, to: str | os.PathLike, last: int | None = None):
    """Writes the average of a run's last checkpoints as a run's folder of its own.

    Args:
        run_dir: The run's folder.
        to: The new folder, with settings, vocabulary and one checkpoint that holds weights only.
            It can be translated with and exported, but not trained on.
        last: How many regular checkpoints; by default as many as the run's settings say.

    Returns:
        The steps that were averaged.

    Raises:
        ValueError: The new folder exists, or the checkpoints are too few or of several models.

    Example:
        >>> average_run("runs/demo", "runs/demo-average", last=5)
    """
    run_dir, to = pathlib.Path(run_dir), pathlib.Path(to)
    check_new(to)
    config = RunConfig.load(run_dir)
    last = config.training.average_last if last is None else last
    checkpoints = run_checkpoints(run_dir, config)
    steps = checkpoints.last(max(last, 0))
    if not 0 < last == len(steps):
        raise ValueError(
            f"{run_dir} should have as many checkpoints as are to be averaged, {last}, at least 1. "
            f"It has the regular ones {', '.join(map(str, steps))}. Train on, or average fewer."
        )
    model, vocabularies = _averaged_model(run_dir, config, steps)
    state = {"averaged": steps, "identity": checkpoints.state(steps[-1]).get("identity", {})}
    with new_folder(to) as folder:
        run_checkpoints(folder, config).save(steps[-1], named_variables(model), state)
        vocabularies.save(folder / "vocab")
        single = dataclasses.replace(config, training=config.training.replace(average_last=1))
        write_json(folder / "config.json", single.to_dict())
    return steps


def _averaged_model(run_dir: pathlib.Path, config: RunConfig, steps: list[int]):
    """The model with the mean weights of some checkpoints, which must fit it; its vocabularies."""
    checkpoints = run_checkpoints(run_dir, config)
    vocabularies = Vocabularies.load(run_dir / "vocab")
    for step in steps:
        identity = checkpoints.state(step).get("identity", {})
        found = identity.get("vocabulary")
        if found != vocabularies.fingerprint:
            raise ValueError(
                f"The vocabulary in {run_dir / 'vocab'} (fingerprint "
                f"{vocabularies.fingerprint[:12]}) is not the one that {checkpoints.path(step)} "
                f"was trained with ({str(found)[:12]}). Put the right vocab/ folder there."
            )
        if identity.get("model") != config.model.to_dict():
            raise ValueError(
                f"{checkpoints.path(step)} holds another model than {run_dir / 'config.json'} "
                f"says: {identity.get('model')}. Put the checkpoint where it belongs."
            )
    model = build_transformer(config.model)
    checkpoints.average(steps, named_variables(model))
    return model, vocabularies
