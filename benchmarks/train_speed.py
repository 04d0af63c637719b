"""Target tokens a second of whole training steps, alone or beside another system's bench.

    python benchmarks/train_speed.py tiny
    python benchmarks/train_speed.py base --jit-compile
    python benchmarks/train_speed.py tiny --peer "python peers/keras_hub/bench.py tiny xla train"

The shapes are those of the peers' benches: random ids without padding, vocabulary 8,000, dropout
0.1, label smoothing 0.1, Adam, float32. A peer's command is run in turn with ours, each in a
process of its own; it prints lines "RESULT {json}" with `tgt_tok_s`. The ratio is the one of the
medians over the rounds. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import time

SHAPES = {
    "tiny": ({"num_layers": 4, "d_model": 128, "d_ff": 256, "num_heads": 4}, (64, 20, 20)),
    "base": ({}, (16, 32, 32)),
}
VOCAB_SIZE = 8000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--norm", default="post", choices=("post", "pre"))
    parser.add_argument("--jit-compile", action="store_true", help="ours under XLA")
    parser.add_argument("--updates", type=int, default=20, help="timed, after five that are not")
    parser.add_argument(
        "--rounds", type=int, default=2, help="with a peer: ours, theirs, ours, ..."
    )
    parser.add_argument("--peer", help="the command of another system's bench")
    arguments = parser.parse_args()
    if arguments.peer is None:
        print("RESULT " + json.dumps(measure(arguments)))
        return
    own = [sys.executable, __file__, arguments.shape, "--norm", arguments.norm]
    own += ["--updates", str(arguments.updates)]
    own += ["--jit-compile"] if arguments.jit_compile else []
    in_turn(own, shlex.split(arguments.peer), arguments.rounds, "tgt_tok_s")


def in_turn(own: list[str], peer: list[str], rounds: int, figure: str) -> None:
    """Runs two benches by turns and prints what they print, and the ratio of their figures."""
    speeds = {"ours": [], "peer": []}
    for _ in range(rounds):
        for name, command in (("ours", own), ("peer", peer)):
            result = result_of(command)
            speeds[name].append(result[figure])
            print(f"{name}: {json.dumps(result)}", flush=True)
    ratio = statistics.median(speeds["ours"]) / statistics.median(speeds["peer"])
    print(f"ours / peer: {ratio:.2f}")


def result_of(command: list[str]) -> dict:
    """The last RESULT that a bench prints."""
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(lines[-1].removeprefix("RESULT "))


def measure(arguments) -> dict:
    """Times our training step."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    import keras_transformer as kt
    from keras_transformer.training.memory import keep_freed_memory
    from keras_transformer.training.step import TrainStep

    keep_freed_memory()
    sizes, (rows, source_length, target_length) = SHAPES[arguments.shape]
    config = kt.TransformerConfig(vocab_size=VOCAB_SIZE, norm=arguments.norm, **sizes)
    model = kt.build_transformer(config)
    step = TrainStep(
        model,
        kt.paper_optimizer(config.d_model),
        0.1,
        tf.distribute.get_strategy(),
        arguments.jit_compile,
    )
    generator = np.random.default_rng(0)
    source, target = (
        generator.integers(4, VOCAB_SIZE, (rows, length), np.int32)
        for length in (source_length, target_length + 1)
    )
    arrays = source, target[:, :-1], target[:, 1:]
    start = time.perf_counter()
    for _ in range(5):
        step(*arrays)
    warm = time.perf_counter() - start
    seconds = []
    for _ in range(arguments.updates):
        start = time.perf_counter()
        step(*arrays)
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    return {
        "peer": "keras_transformer",
        "mode": "xla" if arguments.jit_compile else "graph",
        "cfg": arguments.shape,
        "norm": arguments.norm,
        "step_ms": round(1000 * median, 1),
        "best_ms": round(1000 * min(seconds), 1),
        "tgt_tok_s": round(rows * target_length / median),
        "warm_s": round(warm, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


if __name__ == "__main__":
    main()
