"""`keras-transformer`: translate, score, evaluate, export, inspect, vocab, prepare and more.

A user's mistake ends with one sentence on stderr and exit status 2.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import pathlib
import sys

from keras_transformer.cli_data import add_data_commands, check_named
from keras_transformer.console import run_command
from keras_transformer.convert import to_ctranslate2
from keras_transformer.data.corpus import read_parallel_files
from keras_transformer.decoding.translator import Translator
from keras_transformer.evaluation.bleu import TOKENIZERS
from keras_transformer.evaluation.measures import MEASURES, make_measure
from keras_transformer.export import describe, export_saved_model, load, next_version
from keras_transformer.files import check_writable
from keras_transformer.run_directory import average_run, load_run, load_runs, parse_fields
from keras_transformer.storage import STORAGES
from keras_transformer.text.lines import iter_lines, read_lines, write_lines

_BLOCK = 2048  # lines read, sorted by length and translated at a time


def main(argv: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="keras-transformer", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    translate = commands.add_parser("translate", help="translate text, a sentence a line")
    _add_model(translate)
    _add_search(translate)
    translate.add_argument("--input", default="/dev/stdin", help="a text file (default: stdin)")
    translate.add_argument("--output", help="the file to write (default: stdout)")
    translate.add_argument(
        "--prefix",
        help="of a run: a text file, what each translation begins with, line by line",
    )
    translate.add_argument(
        "--n-best",
        type=int,
        help="so many translations a line, as: line's number, tab, score (log probability by "
        "length penalty), tab, translation",
    )
    translate.set_defaults(run=_translate)

    score = commands.add_parser("score", help="log probability of given translations, a line each")
    _add_model(score)
    score.add_argument("--source", required=True, help="text, a sentence a line")
    score.add_argument("--target", required=True, help="its translation")
    score.set_defaults(run=_score)

    evaluate = commands.add_parser("evaluate", help="score a translation, which a model may make")
    _add_model(evaluate, required=False)
    _add_search(evaluate)
    evaluate.add_argument("--source", help="with --model: text to translate")
    evaluate.add_argument("--output", help="with --model: write the translations here")
    evaluate.add_argument(
        "--hypothesis",
        nargs="+",
        help="in place of --model: a translation; of several, each is compared with the first",
    )
    evaluate.add_argument("--reference", required=True, help="the right translation")
    evaluate.add_argument(
        "--measure",
        nargs="+",
        default=["sacrebleu"],
        choices=MEASURES,
        help="sacrebleu (the default); tokenized: Moses tokens, multi-bleu; paper: these with "
        "compounds split, as the paper counted; chrf; ter",
    )
    evaluate.add_argument(
        "--language", help="of the translation; tokenized and paper need it: de, fr, ..."
    )
    evaluate.add_argument("--tokenizer", default="13a", choices=TOKENIZERS, help="sacreBLEU's")
    evaluate.add_argument("--lowercase", action="store_true", help="ignore case")
    evaluate.add_argument(
        "--resamples",
        type=int,
        help="say how sure the score is, by bootstrap with so many (comparisons: 1000)",
    )
    evaluate.set_defaults(run=_evaluate)

    export = commands.add_parser("export", help="write a SavedModel from a run directory")
    export.add_argument(
        "--run-dir", required=True, nargs="+", help="what trainers/train_wmt.py made; or several"
    )
    export.add_argument("--to", required=True, help="folder of versions; the next is written")
    export.add_argument(
        "--checkpoint",
        default=["average"],
        nargs="+",
        help="average (the default), best, last or a step; or several for an ensemble",
    )
    export.add_argument(
        "--weights", default="float32", choices=STORAGES, help="how the weights are stored"
    )
    export.add_argument(
        "--ids-only", action="store_true", help="no text: it loads with tensorflow alone"
    )
    _add_search(export)
    export.set_defaults(run=_export)

    inspect = commands.add_parser("inspect", help="what an export holds: options and signatures")
    inspect.add_argument("--model", required=True, help="an export, such as saved_models/demo/1")
    inspect.set_defaults(run=_inspect)

    convert = commands.add_parser("convert", help="write a model for another engine, CTranslate2")
    convert.add_argument("--run-dir", required=True, help="what trainers/train_wmt.py made")
    convert.add_argument("--checkpoint", default="average", help="average, best, last or a step")
    convert.add_argument("--to", required=True, choices=["ctranslate2"], help="the engine")
    convert.add_argument("--output", required=True, help="the new folder")
    convert.add_argument("--quantization", help="int8, int8_float32, float16, ... (the engine's)")
    convert.set_defaults(run=_convert)

    add_data_commands(commands)

    average = commands.add_parser("average", help="average a run's last checkpoints (section 6.1)")
    average.add_argument("--run-dir", required=True, help="what trainers/train_wmt.py made")
    average.add_argument("--last", type=int, help="how many (default: as the run's settings say)")
    average.add_argument("--to", required=True, help="the new folder, for --model and --run-dir")
    average.set_defaults(run=_average)

    arguments = parser.parse_args(argv)
    return run_command(arguments.run, arguments)


def _add_model(parser, required: bool = True) -> None:
    parser.add_argument(
        "--model",
        required=required,
        nargs="+",
        help="an export (saved_models/demo/1) or a run directory; several of these: an ensemble",
    )
    parser.add_argument(
        "--checkpoint",
        nargs="+",
        help="of a run: average (the default), best, last or a step; several: an ensemble",
    )
    parser.add_argument(
        "--jit-compile",
        action="store_true",
        help="of a run: XLA compiles the search, which takes a while and makes it quicker",
    )


def _add_search(parser) -> None:
    parser.add_argument("--beam-size", type=int, help="hypotheses kept a sentence; 1 is greedy")
    parser.add_argument("--alpha", type=float, help="exponent of the length penalty")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="any other setting of the search, such as temperature=0.8 or no_repeat_ngram=3",
    )


def _search_options(arguments) -> dict:
    """The options given, by the names of `DecodingConfig`."""
    given = {"beam_size": arguments.beam_size, "alpha": arguments.alpha}
    options = {name: value for name, value in given.items() if value is not None}
    return options | parse_fields(arguments.set, "decoding")


def _translator(arguments):
    paths = [pathlib.Path(path) for path in arguments.model]
    if all((path / "config.json").exists() for path in paths):
        checkpoint = _one_or_several(arguments.checkpoint or ["average"])
        return Translator.from_run(paths, checkpoint, arguments.jit_compile)
    if arguments.checkpoint is not None:
        raise ValueError(
            f"--checkpoint chooses among those of a run directory. Received: {paths[0]}."
        )
    if arguments.jit_compile:
        raise ValueError(
            "--jit-compile is for run directories: an export's graph is fixed. Received: "
            f"{paths[0]}."
        )
    if len(paths) > 1:
        raise ValueError(
            "An ensemble is made of run directories. Received: --model "
            f"{' '.join(map(str, paths))}. Export one with keras-transformer export."
        )
    if not paths[0].exists():
        raise ValueError(
            f"There is no {paths[0]}. Give an export, such as saved_models/demo/1, or a run's "
            "folder."
        )
    return load(paths[0])


def _one_or_several(checkpoints: list[str]):
    return checkpoints[0] if len(checkpoints) == 1 else checkpoints


def _translate(arguments) -> None:
    translator, options = _translator(arguments), _search_options(arguments)
    n_best = 1 if arguments.n_best is None else arguments.n_best
    lines = iter_lines(arguments.input)
    prefixes = iter_lines(arguments.prefix) if arguments.prefix else None
    if arguments.output:
        check_writable(arguments.output)
    # Of no line at all: unfit options are refused before any text is read.
    translator.translations([], n_best, None if prefixes is None else [], **options)

    def results():
        number = 0
        while block := list(itertools.islice(lines, _BLOCK)):
            its = None if prefixes is None else list(itertools.islice(prefixes, len(block)))
            if its is not None and len(its) < len(block):
                raise ValueError(
                    f"{arguments.prefix} should have as many lines as {arguments.input}, which has "
                    f"more. Received: {number + len(its)}. An empty line is no prefix."
                )
            for found in translator.translations(block, n_best, its, **options):
                number += 1
                for place, one in enumerate(found):
                    if place and one.score == -math.inf:  # fewer were found than were asked for
                        continue
                    prefix = f"{number}\t{one.score:.4f}\t" if arguments.n_best is not None else ""
                    yield prefix + one.text

    _write(results(), arguments.output)
    if prefixes is not None and (more := sum(1 for _ in prefixes)):
        raise ValueError(
            f"{arguments.prefix} has {more} lines more than {arguments.input}: they are not of one "
            "text. What was written may have the wrong prefixes."
        )


def _write(lines, output: str | None) -> None:
    """Writes lines to a file, or to stdout."""
    if output:
        write_lines(output, lines)
        return
    for line in lines:
        sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
    sys.stdout.buffer.flush()


def _score(arguments) -> None:
    text = read_parallel_files(arguments.source, arguments.target)
    scores = _translator(arguments).score(text.source, text.target)
    _write((f"{score:.4f}" for score in scores), None)


def _evaluate(arguments) -> None:
    measures = [  # before the work, in case one cannot be had
        make_measure(name, arguments.language, arguments.tokenizer, arguments.lowercase)
        for name in dict.fromkeys(arguments.measure)
    ]
    if arguments.resamples is not None and not 2 <= arguments.resamples <= 100_000:
        raise ValueError(
            f"--resamples should be at least 2, at most 100000. Received: {arguments.resamples}."
        )
    systems, references = _systems(arguments)
    for measure in measures:
        if len(systems) == 1:
            (hypotheses,) = systems.values()
            score = measure(hypotheses, references, arguments.resamples or 0)
            print(f"{score.text}\n{score.signature}")
            continue
        compared = measure.compare(systems, references, arguments.resamples or 1000)
        print(f"{measure.signature}|resamples:{arguments.resamples or 1000}")
        for one in compared:
            p_value = "" if one.p_value is None else f"\tp = {one.p_value:.4f}"
            print(f"{one.name}\t{one.score:.2f}\t({one.mean:.2f} +- {one.margin:.2f}){p_value}")


def _systems(arguments) -> tuple[dict[str, list[str]], list[str]]:
    """Each translation to score by its name, and the reference."""
    if (arguments.model is None) == (arguments.hypothesis is None):
        raise ValueError("Give one of --model, which translates --source, and --hypothesis.")
    if arguments.hypothesis is not None:
        given = [arguments.source, arguments.output, arguments.checkpoint]
        if any(given) or _search_options(arguments) or arguments.jit_compile:
            raise ValueError(
                "--hypothesis is a translation that is there already: --source, --output and what "
                "concerns a search go with --model."
            )
        if len(set(arguments.hypothesis)) < len(arguments.hypothesis):
            raise ValueError("--hypothesis has a file twice. Give each once.")
        systems = {path: read_lines(path) for path in arguments.hypothesis}
        references = read_lines(arguments.reference)
        for path, lines in systems.items():
            if len(lines) != len(references):
                raise ValueError(
                    f"{path} has {len(lines)} lines and {arguments.reference} {len(references)}: "
                    "line i of one should translate what line i of the other does."
                )
        return systems, references
    if arguments.source is None:
        raise ValueError("--model needs --source, the text to translate.")
    if arguments.output:
        check_writable(arguments.output)
    text = read_parallel_files(arguments.source, arguments.reference)
    translations = _translator(arguments)(text.source, **_search_options(arguments))
    if arguments.output:
        write_lines(arguments.output, translations)
    return {arguments.model[0]: translations}, text.target


def _export(arguments) -> None:
    models, vocabularies, config = load_runs(
        arguments.run_dir, _one_or_several(arguments.checkpoint)
    )
    config = config.replace(**_search_options(arguments))
    check_named(arguments.to)
    path = next_version(arguments.to)
    export_saved_model(models, vocabularies, config, path, arguments.weights, arguments.ids_only)
    print(path)


def _inspect(arguments) -> None:
    print(json.dumps(describe(arguments.model), indent=1))


def _convert(arguments) -> None:
    model, vocabularies, _ = load_run(arguments.run_dir, arguments.checkpoint)
    to_ctranslate2(model, vocabularies, arguments.output, arguments.quantization)
    print(f"{arguments.output} (its pieces: {arguments.output}/vocab)")


def _average(arguments) -> None:
    steps = average_run(arguments.run_dir, arguments.to, arguments.last)
    print(f"Averaged the checkpoints of the updates {', '.join(map(str, steps))}.")


if __name__ == "__main__":
    sys.exit(main())
