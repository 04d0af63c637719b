"""The commands for training text: `keras-transformer vocab` and `keras-transformer prepare`."""

from __future__ import annotations

import tqdm

from keras_transformer.config import DataConfig
from keras_transformer.data.corpus import PairStream, stream_parallel_files, stream_tsv
from keras_transformer.data.prepare import prepare
from keras_transformer.data.tfds import stream_tfds
from keras_transformer.files import check_new, new_folder
from keras_transformer.run_directory import parse_fields
from keras_transformer.text.vocabulary import VOCAB_KINDS, Vocabularies, adopt_tokenizer
from keras_transformer.training_text import settings_of


def add_data_commands(commands) -> None:
    """Adds the commands to the parser's."""
    vocab = commands.add_parser("vocab", help="learn a vocabulary from text, or adopt one")
    _add_text(vocab)
    vocab.add_argument(
        "--from",
        dest="models",
        nargs="+",
        metavar="MODEL",
        help="in place of text: a SentencePiece model or tensor2tensor vocabulary for both "
        "languages, or one for each",
    )
    vocab.add_argument("--size", type=int, default=37_000, help="tokens (default: 37000)")
    vocab.add_argument("--kind", default="bpe", choices=VOCAB_KINDS, help="default: bpe")
    vocab.add_argument("--separate", action="store_true", help="one for each language")
    vocab.add_argument(
        "--sample", type=int, help="learn from so many lines of each language, drawn at random"
    )
    vocab.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    vocab.add_argument("--to", required=True, help="the new folder, for --set data.vocab=FOLDER")
    vocab.set_defaults(run=_vocab)

    parser = commands.add_parser(
        "prepare",
        help="tokenise a corpus once, to train on it from disk; the same command again goes on",
    )
    _add_text(parser)
    parser.add_argument("--vocab", required=True, help="what keras-transformer vocab made")
    parser.add_argument("--to", required=True, help="the folder, for trainers' --prepared FOLDER")
    parser.add_argument(
        "--max-length", type=int, default=256, help="leave out pairs with more tokens (256)"
    )
    parser.add_argument("--shards", type=int, default=64, help="files to write (default: 64)")
    parser.add_argument("--seed", type=int, default=1, help="of dealing out to these (default: 1)")
    parser.add_argument("--processes", type=int, help="that tokenise (default: one a CPU core)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="what to leave out, such as drop_duplicates=true or max_length_ratio=3",
    )
    parser.set_defaults(run=_prepare)


def check_named(folder: str) -> None:
    """Raises ValueError where a folder's name is empty."""
    if not folder:
        raise ValueError("--to should name a folder. Received an empty name.")


def _add_text(parser) -> None:
    parser.add_argument("--dataset", help="a TFDS translation dataset: wmt14_translate/de-en")
    parser.add_argument("--data-dir", help="with --dataset: where TFDS keeps its data")
    parser.add_argument("--tsv", help="text as one file: source, tab, target")
    parser.add_argument(
        "--source", nargs="+", help="text files, plain or .gz; with --dataset: the language, en"
    )
    parser.add_argument(
        "--target", nargs="+", help="text files translated to; with --dataset: the language, de"
    )


def _text(arguments) -> PairStream:
    sides = (arguments.source, arguments.target)
    if arguments.tsv is not None and (any(sides) or arguments.dataset):
        raise ValueError("--tsv holds both sides: give no --source, --target or --dataset with it.")
    if arguments.tsv is not None:
        return stream_tsv(arguments.tsv)
    if None in sides:
        raise ValueError("The text needs --source and --target, or --tsv.")
    if arguments.dataset is None:
        return stream_parallel_files(*sides)
    if [len(side) for side in sides] != [1, 1]:
        raise ValueError("With --dataset, --source and --target are a language each: en, de.")
    (source,), (target,) = sides
    return stream_tfds(arguments.dataset, source, target, "train", arguments.data_dir)


def _vocab(arguments) -> None:
    check_named(arguments.to)
    check_new(arguments.to)
    if arguments.models is None:
        vocabularies = Vocabularies.learn(
            *_text(arguments).columns(),
            arguments.kind,
            arguments.size,
            not arguments.separate,
            arguments.seed,
            arguments.sample,
        )
    else:
        vocabularies = _adopted(arguments)
    with new_folder(arguments.to) as folder:
        vocabularies.save(folder)
    print(f"{arguments.to} (train with {settings_of(vocabularies)})")


def _adopted(arguments) -> Vocabularies:
    given = (arguments.source, arguments.target, arguments.tsv, arguments.dataset, arguments.sample)
    if any(value is not None for value in given) or arguments.separate or len(arguments.models) > 2:
        raise ValueError(
            "--from is one vocabulary for both languages or two, one for each, and nothing is "
            "learnt then: give no text, --separate or --sample with it."
        )
    source, *target = map(adopt_tokenizer, arguments.models)
    return Vocabularies(source, target[0] if target else source, shared=not target)


def _prepare(arguments) -> None:
    check_named(arguments.to)
    fields, known = parse_fields(arguments.set, "data"), DataConfig().cleaning
    if unknown := set(fields) - set(known):
        raise ValueError(
            f"--set should be FIELD=VALUE, with FIELD one of {', '.join(known)}. Received: "
            f"{', '.join(sorted(unknown))}."
        )
    vocabularies = Vocabularies.load(arguments.vocab)
    try:
        with tqdm.tqdm(unit=" pairs", unit_scale=True, mininterval=1.0) as bar:
            pairs = prepare(
                _text(arguments),
                vocabularies,
                arguments.to,
                DataConfig(**fields),
                arguments.max_length,
                arguments.shards,
                arguments.seed,
                arguments.processes,
                lambda count: bar.update(count - bar.n),
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The same command goes on from here.") from None
    for reason, count in {**pairs.left_out, **pairs.dropped}.items():
        print(f"{reason}: {count:,} pairs left out")
    print(f"{arguments.to}: {len(pairs):,} pairs, {pairs.tokens:,} tokens")
