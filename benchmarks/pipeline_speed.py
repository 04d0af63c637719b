"""Real target tokens a second, from text files to updates: reading, batching, padding and all.

    python benchmarks/pipeline_speed.py --source train.en.gz --target train.de.gz
    python benchmarks/pipeline_speed.py --source ... --target ... --pieces-to /tmp/pieces \\
        --peer "peer/bin/python benchmarks/opennmt_tf_pipeline.py /tmp/pieces"

The model is the preset's, trained on the whole text for so many updates in the order that training
takes them, after as many that are not timed. A peer gets the same pieces (`--pieces-to` writes
them and the vocabulary as text) and the same batch of padded tokens, and prints "RESULT {json}"
with `real_tgt_tok_s`; it runs in turn with ours, each in a process of its own. Nothing else should
run on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import shlex
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from train_speed import in_turn  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--num-buckets", type=int, default=24)
    parser.add_argument("--max-length", type=int, default=64)
    parser.add_argument("--jit-compile", action="store_true", help="ours under XLA")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pieces-to", help="write pieces and vocabulary as text there, for a peer")
    parser.add_argument("--peer", help="the command of another system's bench; gets updates, batch")
    arguments = parser.parse_args()
    if not arguments.peer:
        print("RESULT " + json.dumps(measure(arguments)))
        return
    own = [sys.executable, *sys.argv, "--peer", ""]  # the last one counts: ours alone
    if arguments.pieces_to is not None:
        write_pieces(arguments)
    peer = [*shlex.split(arguments.peer), str(arguments.updates), str(arguments.batch_tokens)]
    in_turn(own, peer, arguments.rounds, "real_tgt_tok_s")


def prepare(arguments):
    """The vocabulary of the text, and its ids."""
    import keras_transformer as kt

    text = kt.read_parallel_files(arguments.source, arguments.target)
    vocabularies = kt.Vocabularies.learn(text.source, text.target, vocab_size=arguments.vocab_size)
    return vocabularies, kt.encode_pairs(text, vocabularies, arguments.max_length)


def write_pieces(arguments) -> None:
    """Each sentence's ids as words, and a vocabulary of such words, a peer's files."""
    _, pairs = prepare(arguments)
    folder = pathlib.Path(arguments.pieces_to)
    folder.mkdir(parents=True, exist_ok=True)
    for name, side in (("source", pairs.source), ("target", pairs.target)):
        lines = (" ".join(f"t{token}" for token in side[i]) for i in range(len(pairs)))
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    words = ["<blank>", "<s>", "</s>", *(f"t{i}" for i in range(4, arguments.vocab_size))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")


def measure(arguments) -> dict:
    """Times our training from the files on."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    import keras_transformer as kt
    from keras_transformer.training.memory import keep_freed_memory
    from keras_transformer.training.step import TrainStep

    keep_freed_memory()
    start = time.perf_counter()
    vocabularies, pairs = prepare(arguments)
    batches = kt.TokenBatches(pairs, arguments.batch_tokens, arguments.num_buckets, seed=1)
    prepared = time.perf_counter() - start
    config = kt.TransformerConfig.preset(
        arguments.preset, vocab_size=vocabularies.source.vocab_size
    )
    model = kt.build_transformer(config)
    optimizer = kt.paper_optimizer(config.d_model)
    strategy = tf.distribute.get_strategy()
    step = TrainStep(model, optimizer, 0.1, strategy, arguments.jit_compile)
    parts = [batches.part(number) for number in (0, 1)]
    if arguments.jit_compile:  # each shape once, so that none is compiled while it is timed
        for bucket in batches.buckets:
            step(*pairs.batch([], bucket.rows, bucket.source_length, bucket.target_length))
    waiting = tokens = 0.0
    places = [(part, i) for part in parts for i in range(len(part))]
    for number, (part, i) in enumerate(places[: 2 * arguments.updates]):
        if number == arguments.updates:
            waiting = tokens = 0.0
            start = time.perf_counter()
        before = time.perf_counter()
        _, arrays = part[i]
        waiting += time.perf_counter() - before
        tokens += step(*arrays).tokens
    seconds = time.perf_counter() - start
    return {
        "peer": "keras_transformer",
        "mode": "xla" if arguments.jit_compile else "graph",
        "real_tgt_tok_s": round(tokens / seconds),
        "updates_s": round(arguments.updates / seconds, 2),
        "padding": round(batches.padding(), 4),
        "waiting_for_data": round(waiting / seconds, 5),
        "shapes": len(batches.buckets),
        "traces": step.traces,
        "prepare_s": round(prepared, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


if __name__ == "__main__":
    main()
