"""`keras-transformer`: translate, evaluate, export and average from the command line.

A user's mistake ends with one sentence on stderr and exit status 2.
"""

from __future__ import annotations

import argparse
import itertools
import math
import pathlib
import sys

from keras_transformer.console import run_command
from keras_transformer.data.corpus import read_parallel_files
from keras_transformer.decoding.translator import Translator
from keras_transformer.evaluation.bleu import TOKENIZERS, corpus_bleu
from keras_transformer.export import export_saved_model, load, next_version
from keras_transformer.run_directory import average_run, load_run
from keras_transformer.text.lines import iter_lines, write_lines

_BLOCK = 2048  # lines read, sorted by length and translated at a time


def main(argv: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="keras-transformer", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    translate = commands.add_parser("translate", help="translate text, a sentence a line")
    _add_model(translate)
    translate.add_argument("--input", default="/dev/stdin", help="a text file (default: stdin)")
    translate.add_argument("--output", help="the file to write (default: stdout)")
    translate.add_argument(
        "--n-best",
        type=int,
        help="so many translations a line, as: line's number, tab, score, tab, translation",
    )
    translate.set_defaults(run=_translate)

    evaluate = commands.add_parser("evaluate", help="translate a text and score it (sacreBLEU)")
    _add_model(evaluate)
    evaluate.add_argument("--source", required=True, help="text to translate")
    evaluate.add_argument("--reference", required=True, help="its translation")
    evaluate.add_argument("--tokenizer", default="13a", choices=TOKENIZERS, help="sacreBLEU's")
    evaluate.add_argument("--lowercase", action="store_true", help="ignore case")
    evaluate.add_argument("--output", help="write the translations here")
    evaluate.set_defaults(run=_evaluate)

    export = commands.add_parser("export", help="write a SavedModel from a run directory")
    export.add_argument("--run-dir", required=True, help="what trainers/train_wmt.py made")
    export.add_argument("--to", required=True, help="folder of versions; the next is written")
    export.add_argument("--checkpoint", default="average", help="average, best, last or a step")
    export.add_argument("--beam-size", type=int, help="hypotheses kept a sentence")
    export.add_argument("--alpha", type=float, help="exponent of the length penalty")
    export.set_defaults(run=_export)

    average = commands.add_parser("average", help="average a run's last checkpoints (section 6.1)")
    average.add_argument("--run-dir", required=True, help="what trainers/train_wmt.py made")
    average.add_argument("--last", type=int, help="how many (default: as the run's settings say)")
    average.add_argument("--to", required=True, help="the new folder, for --model and --run-dir")
    average.set_defaults(run=_average)

    arguments = parser.parse_args(argv)
    return run_command(arguments.run, arguments)


def _add_model(parser) -> None:
    parser.add_argument(
        "--model", required=True, help="an export (saved_models/demo/1) or a run directory"
    )
    parser.add_argument(
        "--checkpoint", help="of a run directory: average (the default), best, last or a step"
    )
    parser.add_argument("--beam-size", type=int, help="hypotheses kept a sentence; 1 is greedy")
    parser.add_argument("--alpha", type=float, help="exponent of the length penalty")


def _translator(arguments):
    path = pathlib.Path(arguments.model)
    if (path / "config.json").exists():
        return Translator.from_run(path, arguments.checkpoint or "average")
    if arguments.checkpoint is not None:
        raise ValueError(
            f"--checkpoint chooses among those of a run directory, and {path} is not one."
        )
    if not path.exists():
        raise ValueError(
            f"There is no {path}. Give an export, such as saved_models/demo/1, or a run's folder."
        )
    return load(path)


def _translate(arguments) -> None:
    translator = _translator(arguments)
    n_best = 1 if arguments.n_best is None else arguments.n_best
    lines = iter_lines(arguments.input)

    def results():
        number = 0
        while block := list(itertools.islice(lines, _BLOCK)):
            for found in translator.translations(
                block, arguments.beam_size, arguments.alpha, n_best
            ):
                number += 1
                for one in found:
                    if one.score == -math.inf:  # the search found fewer than were asked for
                        continue
                    prefix = f"{number}\t{one.score:.4f}\t" if arguments.n_best is not None else ""
                    yield prefix + one.text

    if arguments.output:
        write_lines(arguments.output, results())
        return
    for line in results():
        sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
    sys.stdout.buffer.flush()


def _evaluate(arguments) -> None:
    text = read_parallel_files(arguments.source, arguments.reference)
    translations = _translator(arguments)(text.source, arguments.beam_size, arguments.alpha)
    if arguments.output:
        write_lines(arguments.output, translations)
    bleu = corpus_bleu(translations, text.target, arguments.tokenizer, arguments.lowercase)
    print(f"{bleu.text}\n{bleu.signature}")


def _export(arguments) -> None:
    model, vocabularies, config = load_run(arguments.run_dir, arguments.checkpoint)
    given = {"beam_size": arguments.beam_size, "alpha": arguments.alpha}
    config = config.replace(**{name: v for name, v in given.items() if v is not None})
    path = next_version(arguments.to)
    export_saved_model(model, vocabularies, config, path)
    print(path)


def _average(arguments) -> None:
    steps = average_run(arguments.run_dir, arguments.to, arguments.last)
    print(f"Averaged the checkpoints of the updates {', '.join(map(str, steps))}.")


if __name__ == "__main__":
    sys.exit(main())
