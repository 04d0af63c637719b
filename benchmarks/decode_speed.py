"""Sentences a second of decoding, alone or beside another system's bench.

    python benchmarks/decode_speed.py tiny --beam-size 1 --batch 1
    python benchmarks/decode_speed.py base --beam-size 4 --batch 32 --threads 2
    python benchmarks/decode_speed.py tiny --peer "python peers/ctranslate2/bench.py ..."

The graph is the one that an export holds. The shapes are those of the peers' benches: random
weights and ids, vocabulary 8,000, exactly 32 output tokens of 32 (base) or 20 (tiny) source tokens,
float32. A peer's command is run in turn with ours; it prints lines "RESULT {json}" with `sent_s`.
Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import statistics
import sys
import time

from train_speed import SHAPES, VOCAB_SIZE, in_turn

OUTPUT = 32


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--calls", type=int, default=10, help="timed, after two that are not")
    parser.add_argument("--rounds", type=int, default=2, help="with a peer: ours, theirs, ...")
    parser.add_argument("--peer", help="the command of another system's bench")
    arguments = parser.parse_args()
    if arguments.peer is None:
        print("RESULT " + json.dumps(measure(arguments)))
        return
    own = [sys.executable, __file__, arguments.shape]
    for name in ("beam_size", "batch", "threads", "calls"):
        own += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    in_turn(own, shlex.split(arguments.peer), arguments.rounds, "sent_s")


def measure(arguments) -> dict:
    """Times the search as a graph of any batch size and length."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    import keras_transformer as kt
    from keras_transformer.decoding.beam import beam_search
    from keras_transformer.decoding.incremental import IncrementalDecoder
    from keras_transformer.decoding.sampling import greedy_search

    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    sizes, (_, source_length, _) = SHAPES[arguments.shape]
    model = kt.build_transformer(kt.TransformerConfig(vocab_size=VOCAB_SIZE, **sizes))
    config = kt.DecodingConfig(
        beam_size=arguments.beam_size, min_length=OUTPUT, max_length=OUTPUT, extra_length=OUTPUT
    )
    decoder, find = IncrementalDecoder(model), beam_search
    if arguments.beam_size == 1:
        find = greedy_search
    search = tf.function(
        lambda ids: find(decoder, ids, config),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    generator = np.random.default_rng(0)
    ids = generator.integers(4, VOCAB_SIZE, (arguments.batch, source_length), np.int32)
    ids = tf.constant(ids)
    start = time.perf_counter()
    found = search(ids)
    first = time.perf_counter() - start
    assert found.lengths.numpy().tolist() == [[OUTPUT]] * arguments.batch
    search(ids)
    seconds = []
    for _ in range(arguments.calls):
        start = time.perf_counter()
        search(ids).scores.numpy()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    return {
        "peer": "keras_transformer",
        "mode": "graph",
        "cfg": arguments.shape,
        "beam": arguments.beam_size,
        "batch": arguments.batch,
        "threads": arguments.threads,
        "sec": round(median, 4),
        "best_s": round(min(seconds), 4),
        "sent_s": round(arguments.batch / median, 2),
        "first_call_s": round(first, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


if __name__ == "__main__":
    main()
