"""Trains a translation model from text to a scored SavedModel (paper sections 5 and 6.1).

With no argument it runs the built-in synthetic demo:

    python trainers/train_wmt.py

Files, or a TFDS dataset as in the paper:

    python trainers/train_wmt.py --train-source a.en.gz --train-target a.de.gz ... --preset tiny
    python trainers/train_wmt.py --dataset wmt14_translate/de-en --preset base
    python trainers/train_wmt.py --recipe paper/ende-base

The same command again goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import sys

# Before TensorFlow is imported: its notes about GPUs it did not find are no one's news.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_transformer.console import TrainingBar, run_command  # noqa: E402
from keras_transformer.job import Job  # noqa: E402
from keras_transformer.recipes import RECIPES, find_recipe  # noqa: E402
from keras_transformer.run_directory import RunConfig, write_json  # noqa: E402
from keras_transformer.training.memory import keep_freed_memory  # noqa: E402
from keras_transformer.training.strategy import STRATEGIES, tf_config  # noqa: E402
from keras_transformer.training.trainer import Interrupted  # noqa: E402

DATA_FLAGS = {
    "dataset": "a TFDS translation dataset, such as wmt14_translate/de-en",
    "data-dir": "where TFDS keeps its data",
    "source": "language translated from (with --dataset)",
    "target": "language translated to (with --dataset)",
    "train-source": "training text, UTF-8, plain or .gz, one sentence a line",
    "train-target": "its translation, line by line",
    "train-tsv": "training text as one file: source, tab, target",
    "prepared": "training text as keras-transformer prepare wrote it, for more than fits in memory",
    "valid-source": "validation text",
    "valid-target": "its translation",
    "test-source": "test text, translated and scored at the end",
    "test-target": "its translation",
    "vocab-kind": "bpe (SentencePiece) or wordpiece",
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--preset", help="named settings; default: demo without data, else base")
    start.add_argument("--config", help="settings from a file, as --dump-config writes it")
    start.add_argument(
        "--recipe", help=f"a training of the paper, with its text: {', '.join(RECIPES)}"
    )
    for flag, text in DATA_FLAGS.items():
        parser.add_argument(f"--{flag}", help=text)
    parser.add_argument("--run-dir", help="the run's folder (default: runs/PRESET)")
    parser.add_argument(
        "--export-to", help="export below this folder (default: saved_models/NAME OF THE RUN)"
    )
    parser.add_argument("--strategy", default="auto", help=", ".join(STRATEGIES))
    parser.add_argument(
        "--workers", metavar="HOST:PORT,...", help="the processes that train together"
    )
    parser.add_argument("--worker-index", type=int, help="which of them this one is, from 0")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PART.FIELD=VALUE",
        help="override any setting of model., training., decoding. or data., such as "
        "--set training.max_minutes=40",
    )
    parser.add_argument("--batch-tokens", type=int, help="--set training.batch_tokens=...")
    parser.add_argument("--average-last", type=int, help="--set training.average_last=...")
    parser.add_argument(
        "--jit-compile", action="store_const", const="true", help="--set training.jit_compile=true"
    )
    parser.add_argument("--dump-config", metavar="FILE", help="write all settings there, and stop")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what the training would be like, and stop"
    )
    return run_command(train, parser.parse_args(argv))


def train(arguments: argparse.Namespace) -> int:
    """Runs the job and prints what came of it."""
    keep_freed_memory()
    names = [flag.replace("-", "_") for flag in DATA_FLAGS]
    data = {name: getattr(arguments, name) for name in names}
    data = {name: value for name, value in data.items() if value is not None}
    recipe = None if arguments.recipe is None else find_recipe(arguments.recipe)
    if recipe is not None:
        given = {s.split("=")[0].removeprefix("data.") for s in arguments.set if "data." in s}
        text = {"train_source", "train_target", "train_tsv", *recipe.data} & given - {"stream"}
        if other := (set(data) - {"data_dir", "prepared"}) | text:
            raise ValueError(
                f"A recipe has its own text. Received --recipe {arguments.recipe} with "
                f"--{min(other).replace('_', '-')}: give its preset, {recipe.preset}, in place."
            )
        data = {**recipe.data, **({"stream": False} if "prepared" in data else {}), **data}
    has_data = {"dataset", "train_source", "train_target", "train_tsv", "prepared"} & set(data)
    settings = [
        f"training.{name}={getattr(arguments, name)}"
        for name in ("batch_tokens", "average_last", "jit_compile")
        if getattr(arguments, name) is not None
    ] + arguments.set
    preset = recipe.preset if recipe else arguments.preset or ("base" if has_data else "demo")
    if arguments.config is not None:
        preset = os.path.splitext(os.path.basename(arguments.config))[0]
        config = RunConfig.load(arguments.config).replace(data, settings)
    else:
        config = RunConfig.from_preset(preset, data, settings)
    for flag, value in {"--run-dir": arguments.run_dir, "--export-to": arguments.export_to}.items():
        if value == "":
            raise ValueError(f"{flag} should name a folder. Received an empty name. Leave it out.")
    if (arguments.workers is None) != (arguments.worker_index is None):
        raise ValueError("--workers and --worker-index go together. Received only one of them.")
    if arguments.workers is not None:
        if arguments.strategy not in ("auto", "multiworker"):
            raise ValueError(
                "--workers goes with --strategy multiworker, the default where it is given. "
                f"Received: --strategy {arguments.strategy}."
            )
        os.environ["TF_CONFIG"] = tf_config(arguments.workers.split(","), arguments.worker_index)
    if arguments.dump_config is not None:
        write_json(arguments.dump_config, config.to_dict())
        return 0
    run_dir = arguments.run_dir or os.path.join(
        "runs", preset if recipe is None else arguments.recipe.replace("/", "-")
    )
    name = os.path.basename(os.path.abspath(run_dir))
    export_to = arguments.export_to or os.path.join("saved_models", name)
    if arguments.dry_run:
        job = Job(config, run_dir, None, arguments.strategy, print)
        figures = job.dry_run()
        if recipe is not None:
            figures["paper"] = dataclasses.asdict(recipe)
        print(json.dumps(figures, indent=1))
        return 0
    try:
        with TrainingBar(config.training.steps, config.training.max_minutes) as bar:
            job = Job(config, run_dir, export_to, arguments.strategy, bar.say, bar.on_step)
            report = job.run()
    except Interrupted:
        command = shlex.join([os.path.basename(sys.executable), *sys.argv])
        print(f"Stopped, and saved in {run_dir}. To go on: {command}", file=sys.stderr)
        return 130
    if report:  # of several processes the first one's
        print_report(report, run_dir)
    return 0


def print_report(report: dict, run_dir: str) -> None:
    test = report.get("test")
    if test:
        for sample in test["samples"]:
            print(f"\n  source:      {sample['source']}")
            print(f"  reference:   {sample['reference']}")
            print(f"  translation: {sample['translation']}")
        print(f"\nTest BLEU {test['bleu']:.2f}, {test['sentences']} sentences, {test['text']}")
        print(f"  {test['details']}\n  {test['signature']}")
        if "paper_bleu" in test:
            print(f"As the paper counted it, comparable with its Table 2: {test['paper_bleu']:.2f}")
    print(
        f"{report['updates']} updates in {report['training_minutes']:.1f} minutes of training, "
        f"{report['target_tokens_per_second']:,.0f} target tokens a second; "
        f"{report['total_minutes']:.1f} minutes in all.\nReport: {run_dir}/report.json"
    )
    print(f"Translate with: keras-transformer translate --model {report['export']} < in.txt")


if __name__ == "__main__":
    sys.exit(main())
