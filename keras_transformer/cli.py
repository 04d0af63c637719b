"""The commands: `keras-transformer ...` and `trainers/train_wmt.py`.

A user's mistake ends with one sentence on stderr and exit status 2.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys

DATA_FLAGS = {
    "dataset": "a TFDS translation dataset, such as wmt14_translate/de-en",
    "data-dir": "where TFDS keeps its data",
    "source": "language translated from (with --dataset)",
    "target": "language translated to (with --dataset)",
    "train-source": "training text, UTF-8, plain or .gz, one sentence a line",
    "train-target": "its translation, line by line",
    "train-tsv": "training text as one file: source, tab, target",
    "valid-source": "validation text",
    "valid-target": "its translation",
    "test-source": "test text, translated and scored at the end",
    "test-target": "its translation",
    "vocab-kind": "bpe (SentencePiece) or wordpiece",
}


def train_main(argv: list[str] | None = None) -> int:
    """`trainers/train_wmt.py`."""
    parser = argparse.ArgumentParser(
        prog="train_wmt.py",
        description="Train a Transformer to translate. With no argument: the built-in demo.",
    )
    parser.add_argument("--preset", help="named settings; default: demo without data, else base")
    for flag, text in DATA_FLAGS.items():
        parser.add_argument(f"--{flag}", help=text)
    parser.add_argument("--run-dir", help="the run's folder (default: runs/PRESET)")
    parser.add_argument(
        "--export-to", help="export below this folder (default: saved_models/RUN'S NAME)"
    )
    parser.add_argument("--strategy", default="auto", help="auto, single or mirrored")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PART.FIELD=VALUE",
        help="override any setting: model., training., decoding. or data., such as "
        "--set training.max_minutes=40",
    )
    return _guarded(_train, parser.parse_args(argv))


def _train(arguments) -> None:
    from keras_transformer.job import Job
    from keras_transformer.training.memory import keep_freed_memory
    from keras_transformer.training.trainer import Interrupted

    keep_freed_memory()
    given = {flag.replace("-", "_"): getattr(arguments, flag.replace("-", "_")) for flag in DATA_FLAGS}
    given = {name: value for name, value in given.items() if value is not None}
    has_data = {"dataset", "train_source", "train_target", "train_tsv"} & set(given)
    preset = arguments.preset or ("base" if has_data else "demo")
    config = resolve_config(preset, given, arguments.set)
    run_dir = arguments.run_dir or os.path.join("runs", preset)
    export_to = arguments.export_to or os.path.join(
        "saved_models", os.path.basename(os.path.normpath(run_dir))
    )
    with _ProgressBar(config.training) as bar:
        job = Job(config, run_dir, export_to, arguments.strategy, bar.say, bar.on_step)
        try:
            report = job.run()
        except Interrupted:
            bar.close()
            command = " ".join(["python", *sys.argv])
            print(f"\nStopped and saved in {run_dir}. To go on: {command}", file=sys.stderr)
            sys.exit(130)
    _print_report(report, run_dir)


def _print_report(report: dict, run_dir: str) -> None:
    test = report.get("test")
    if test:
        print()
        for sample in test["samples"]:
            print(f"  source:      {sample['source']}")
            print(f"  reference:   {sample['reference']}")
            print(f"  translation: {sample['translation']}\n")
        print(f"Test BLEU {test['bleu']:.2f} on {test['sentences']} sentences of {test['text']}")
        print(f"  {test['details']}\n  {test['signature']}")
    print(
        f"{report['updates']} updates, {report['training_minutes']:.1f} minutes of training "
        f"({report['target_tokens_per_second']:,.0f} target tokens a second), "
        f"{report['total_minutes']:.1f} minutes in all. Report: {os.path.join(run_dir, 'report.json')}"
    )
    if "export" in report:
        print(f"Translate with: keras-transformer translate --model {report['export']} < in.txt")


def resolve_config(preset: str, data: dict, settings: list[str]):
    """A `RunConfig` from a preset, data fields and `PART.FIELD=VALUE` overrides.

    Raises:
        ValueError: A name is unknown, or a value does not fit.
    """
    from keras_transformer.config import DataConfig
    from keras_transformer.presets import find_preset
    from keras_transformer.run_directory import RunConfig

    found = find_preset(preset)
    config = RunConfig(found.model, found.training, found.decoding, DataConfig())
    config = dataclasses.replace(config, data=config.data.replace(**data))
    changes: dict[str, dict] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        part, dot, field = name.partition(".")
        parts = [f.name for f in dataclasses.fields(config)]
        if not equals or not dot or part not in parts:
            raise ValueError(
                f"--set should be PART.FIELD=VALUE, PART one of {', '.join(parts)}. "
                f"Received: {setting!r}."
            )
        try:
            changes.setdefault(part, {})[field] = json.loads(value)
        except json.JSONDecodeError:
            changes.setdefault(part, {})[field] = value  # a plain word is text
    return dataclasses.replace(
        config, **{part: getattr(config, part).replace(**fields) for part, fields in changes.items()}
    )


class _ProgressBar:
    """A tqdm bar over updates, with news printed above it."""

    def __init__(self, training):
        self._training, self._bar = training, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._bar is not None:
            self._bar.close()

    def say(self, line: str) -> None:
        import tqdm

        tqdm.tqdm.write(line, file=sys.stderr)

    def on_step(self, progress, loss: float, perplexity: float) -> None:
        import tqdm

        if self._bar is None:
            self._bar = tqdm.tqdm(
                total=self._training.steps, initial=progress.step - 1, unit="update", mininterval=1.0
            )
        left = ""
        if self._training.max_minutes is not None:
            left = f", {max(self._training.max_minutes - progress.seconds / 60, 0):.1f} min left"
        speed = progress.tokens / max(progress.seconds, 1e-9)
        self._bar.set_postfix_str(
            f"loss {loss:.3f}, perplexity {perplexity:.2f}, {speed:,.0f} tokens/s{left}",
            refresh=False,
        )
        self._bar.update()


def _guarded(command, arguments) -> int:
    """Runs a command; a user's mistake becomes one sentence and exit status 2."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        command(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except FloatingPointError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read our output has seen enough
        with contextlib.suppress(OSError):
            sys.stdout.close()
        return 141
    return 0
