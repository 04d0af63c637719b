"""Sentences a second of decoding, alone or beside another system's bench.

    python benchmarks/decode_speed.py tiny --beam-size 1 --batch 1
    python benchmarks/decode_speed.py base --beam-size 4 --batch 32 --threads 2
    python benchmarks/decode_speed.py tiny --batch 32 --threads 2 --workers 2 --jit-compile
    python benchmarks/decode_speed.py tiny --peer "python peers/ctranslate2/bench.py ..."

A SavedModel is written, loaded and called, as a server does; with --jit-compile, XLA compiles the
search in Python. The shapes are those of the peers' benches: random weights and ids, vocabulary
8,000, exactly 32 output tokens of 32 (base) or 20 (tiny) source tokens, float32. Several workers
are Python threads that share a batch. A peer's command is run in turn with ours; it prints lines
"RESULT {json}" with `sent_s`. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import resource
import shlex
import statistics
import sys
import tempfile
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
    parser.add_argument("--workers", type=int, default=1, help="they share a batch")
    parser.add_argument("--jit-compile", action="store_true", help="compile the search by XLA")
    parser.add_argument("--calls", type=int, default=10, help="timed, after two that are not")
    parser.add_argument("--rounds", type=int, default=2, help="with a peer: ours, theirs, ...")
    parser.add_argument("--peer", help="the command of another system's bench")
    arguments = parser.parse_args()
    if arguments.peer is None:
        print("RESULT " + json.dumps(measure(arguments)))
        return
    own = [sys.executable, __file__, arguments.shape]
    for name in ("beam_size", "batch", "threads", "workers", "calls"):
        own += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    own += ["--jit-compile"] * arguments.jit_compile
    in_turn(own, shlex.split(arguments.peer), arguments.rounds, "sent_s")


def measure(arguments) -> dict:
    """Times the search, of any batch size and length where it is not compiled."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    import keras_transformer as kt
    from keras_transformer.decoding.beam import beam_search
    from keras_transformer.decoding.incremental import IncrementalDecoder
    from keras_transformer.decoding.room import Room
    from keras_transformer.decoding.sampling import greedy_search

    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    sizes, (_, source_length, _) = SHAPES[arguments.shape]
    model = kt.build_transformer(kt.TransformerConfig(vocab_size=VOCAB_SIZE, **sizes))
    config = kt.DecodingConfig(
        beam_size=arguments.beam_size, min_length=OUTPUT, max_length=OUTPUT, extra_length=OUTPUT
    )
    decoder = IncrementalDecoder(model)
    laid_out = decoder.lay_out()
    find = greedy_search if arguments.beam_size == 1 else beam_search
    started = time.perf_counter()
    if arguments.jit_compile:
        room = Room(OUTPUT)
        search = tf.function(
            lambda ids: find(decoder, ids, config, room=room)._asdict(),
            autograph=False,
            jit_compile=True,
        )
    else:
        module = tf.Module()
        module.kept = [weight.value for weight in model.weights], laid_out
        module.search = tf.function(
            lambda ids: find(decoder, ids, config)._asdict(),
            input_signature=[tf.TensorSpec([None, None], tf.int32, name="ids")],
            autograph=False,
        )
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder, signatures={"ids": module.search})
            started = time.perf_counter()
            loaded = tf.saved_model.load(folder)
        search = loaded.signatures["ids"]
    load = time.perf_counter() - started
    generator = np.random.default_rng(0)
    ids = generator.integers(4, VOCAB_SIZE, (arguments.batch, source_length), np.int32)
    parts = [tf.constant(part) for part in np.array_split(ids, arguments.workers)]
    started = time.perf_counter()
    found = search(ids=parts[0])
    first = time.perf_counter() - started
    assert found["lengths"].numpy().tolist() == [[OUTPUT]] * len(parts[0])
    seconds = []
    with concurrent.futures.ThreadPoolExecutor(arguments.workers) as pool:
        for _ in range(arguments.calls + 2):
            started = time.perf_counter()
            list(pool.map(lambda part: search(ids=part)["scores"].numpy(), parts))
            seconds.append(time.perf_counter() - started)
    seconds = seconds[2:]
    median = statistics.median(seconds)
    return {
        "peer": "keras_transformer",
        "mode": "xla" if arguments.jit_compile else "saved model",
        "cfg": arguments.shape,
        "beam": arguments.beam_size,
        "batch": arguments.batch,
        "threads": arguments.threads,
        "workers": arguments.workers,
        "sec": round(median, 4),
        "best_s": round(min(seconds), 4),
        "sent_s": round(arguments.batch / median, 2),
        "load_s": round(load, 2),
        "first_call_s": round(first, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


if __name__ == "__main__":
    main()
