"""Time and memory of a corpus of WMT's size: vocabulary, preparation, reading, some training.

    python benchmarks/scale.py --pairs 5000000 --folder /tmp/scale

Writes synthetic pairs, whose lengths are those of news (real sentences of shared/data joined until
they have the length drawn), runs the commands on them as a user would, watches the memory of their
processes, prints one line of JSON a step, and deletes what it wrote.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
READ = """
import time
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.prepared import PreparedPairs
start = time.perf_counter()
pairs = PreparedPairs({folder!r})
batches = TokenBatches(pairs, batch_tokens=25_000, num_buckets=8, seed=1)
tokens = updates = 0
for number in range(pairs.parts):
    for bucket, (source, target_in, target_out) in batches.part(number):
        tokens += int((source != 0).sum()) + int((target_out != 0).sum())
        updates += 1
seconds = time.perf_counter() - start
print(dict(tokens=tokens, updates=updates, tokens_per_second=round(tokens / seconds),
           parts=pairs.parts, padding=round(batches.padding(), 4), shapes=len(batches.buckets)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--folder", required=True, help="to work in; it must not exist")
    parser.add_argument("--data", default=str(ROOT.parent / "shared" / "data"))
    parser.add_argument("--kind", default="bpe", help="of the vocabulary: bpe or wordpiece")
    parser.add_argument("--size", type=int, default=37_000, help="of the vocabulary")
    parser.add_argument(
        "--sample", type=int, default=1_000_000, help="lines a side it is learnt from"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=1.0, help="of training at the end")
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.folder)
    folder.mkdir(parents=True)
    try:
        start = time.perf_counter()
        sides = write_text(folder, pathlib.Path(arguments.data), arguments.pairs)
        megabytes = round(sum(path.stat().st_size for path in sides) / 1e6)
        say("text", seconds=time.perf_counter() - start, megabytes=megabytes)
        run_steps(folder, sides, arguments)
    finally:
        shutil.rmtree(folder)


def run_steps(folder: pathlib.Path, sides: list[pathlib.Path], arguments) -> None:
    command = [sys.executable, "-m", "keras_transformer.cli"]
    text = ["--source", str(sides[0]), "--target", str(sides[1])]
    vocab, prepared = str(folder / "vocab"), str(folder / "prepared")
    learn = ["--size", str(arguments.size), "--kind", arguments.kind, "--to", vocab]
    watch("vocab", [*command, "vocab", *text, *learn, "--sample", str(arguments.sample)])
    prepare = ["--vocab", vocab, "--to", prepared, "--processes", str(arguments.processes)]
    watch("prepare", [*command, "prepare", *text, *prepare], pairs=arguments.pairs)
    bytes_written = sum(path.stat().st_size for path in pathlib.Path(prepared).glob("train-*"))
    say("prepared", megabytes=round(bytes_written / 1e6))
    watch("read", [sys.executable, "-c", READ.format(folder=prepared)])
    train = [sys.executable, str(ROOT / "trainers" / "train_wmt.py"), "--preset", "tiny"]
    train += ["--prepared", prepared, "--run-dir", str(folder / "run")]
    train += ["--export-to", str(folder / "exports"), "--set", f"model.vocab_size={arguments.size}"]
    train += ["--set", f"data.vocab_kind={arguments.kind}"]
    watch("train", [*train, "--set", f"training.max_minutes={arguments.minutes}"])


def write_text(folder: pathlib.Path, data: pathlib.Path, count: int) -> list[pathlib.Path]:
    """Two files of so many pairs, as long as news sentences: mean 25 words, at most 250."""
    generator, pairs = random.Random(1), []
    for stem in (
        "tatoeba/en-de.{}.gz",
        "newstest/newstest2013.{}.gz",
        "libreoffice-help/all.{}.gz",
    ):
        columns = [
            gzip.decompress((data / stem.format(language)).read_bytes()).decode().split("\n")[:-1]
            for language in ("en", "de")
        ]
        pairs += zip(*columns, strict=True)
    sides = [folder / "train.en", folder / "train.de"]
    with (
        open(sides[0], "w", encoding="utf-8") as source,
        open(sides[1], "w", encoding="utf-8") as target,
    ):
        for _ in range(count):
            wanted, words, parts = min(generator.lognormvariate(3.0, 0.65), 250.0), 0, []
            while words < wanted:
                pair = generator.choice(pairs)
                parts.append(pair)
                words += pair[0].count(" ") + 1
            source.write(" ".join(pair[0] for pair in parts) + "\n")
            target.write(" ".join(pair[1] for pair in parts) + "\n")
    return sides


def watch(step: str, command: list[str], pairs: int | None = None) -> None:
    """Runs a command and says how long it took and how much memory its processes had."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    peaks = {"largest": 0, "together": 0}
    watcher = threading.Thread(target=_watch, args=[process, peaks], daemon=True)
    watcher.start()
    out, errors = process.communicate()
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{step} failed: {errors[-2000:]}")
    figures = {"said": out.strip().splitlines()[-1:], "seconds": seconds}
    if pairs is not None:
        figures["pairs_per_second"] = round(pairs / seconds)
    gib = {f"peak_gib_{name}": round(peak / 2**20, 2) for name, peak in peaks.items()}
    say(step, **figures, **gib)


def _watch(process: subprocess.Popen, peaks: dict) -> None:
    """Notes the largest resident memory (KiB) of one process, and of all of them together."""
    while process.poll() is None:
        sizes = [_resident(pid) for pid in _family(process.pid)]
        peaks["largest"] = max(peaks["largest"], *sizes, 0)
        peaks["together"] = max(peaks["together"], sum(sizes))
        time.sleep(0.2)


def _family(pid: int) -> list[int]:
    """A process and all that it started."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(one for child in children for one in _family(int(child)))]


def _resident(pid: int) -> int:
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])
    except (OSError, IndexError):
        return 0


def say(step: str, **figures) -> None:
    figures = {k: round(v, 1) if isinstance(v, float) and v > 10 else v for k, v in figures.items()}
    print(json.dumps({"step": step, **figures}), flush=True)


if __name__ == "__main__":
    main()
