"""An export takes whatever comes, from many threads at once, and does not grow."""

import pathlib
import random
import threading
import time
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.export import load

ODD = ["", " ", "   ", "\u200b\u200d\ufeff", "\u202eright to left\u202c", "שלום עליכם", "a" * 5000]


def odd_lines(count):
    """Lines of random bytes made valid, of all planes of Unicode, and of everything else."""
    generator = random.Random(0)
    marks = ["\u0301", "\u200d", "\ufe0f", "\u2028", "\u0085", "\x00", "\x07", "\t", "\u2581", "⁇"]
    lines = list(ODD)
    while len(lines) < count:
        length = generator.choice([1, 3, 10, 40])
        kind = len(lines) % 4
        if kind == 0:
            line = generator.randbytes(length).decode("utf-8", "replace")
        elif kind == 1:
            points = (generator.randrange(0x110000) for _ in range(length))
            line = "".join(chr(p) for p in points if not 0xD800 <= p < 0xE000)
        elif kind == 2:
            line = "".join(generator.choice([*marks, "a", " ", "ß"]) for _ in range(length))
        else:
            line = unicodedata.normalize("NFD", "über die Straße") * generator.randrange(1, 3)
        lines.append(line.replace("\n", " ").replace("\r", " "))
    return lines


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*max_source_length:UserWarning")
def test_ten_thousand_odd_lines_come_out_as_as_many(world):
    lines = odd_lines(10_000)
    translator = load(world.path)
    found = translator(lines, batch_size=100)
    assert len(found) == len(lines)
    assert found[:3] == ["", "", ""] and not any("\n" in text for text in found)
    for start in (0, 5_000, 9_900):  # whatever the batch they came in
        alone = [translator([line])[0] for line in lines[start : start + 20]]
        assert alone == found[start : start + 20]


def _resident():
    """KiB of memory; not ru_maxrss, which an earlier test's peak would hide growth under."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [20])
def test_eight_threads_get_what_one_gets_and_memory_does_not_grow(world, seconds):
    function = tf.saved_model.load(str(world.path)).signatures["serving_default"]
    batches = [tf.constant(world.lines[i : i + 1 + i % 7]) for i in range(0, 60, 4)]
    expected = [function(source=batch)["translation"].numpy().tolist() for batch in batches]
    wrong, calls, end = [], [0] * 8, time.monotonic() + seconds

    def work(number):
        generator = np.random.default_rng(number)
        while time.monotonic() < end and not wrong:
            i = generator.integers(len(batches))
            found = function(source=batches[i])["translation"].numpy().tolist()
            calls[number] += 1
            if found != expected[i]:
                wrong.append((found, expected[i]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 2)
    half = _resident()
    for thread in threads:
        thread.join()
    grown = _resident() - half
    print(f"{sum(calls)} calls, {grown / 1024:.0f} MiB more at the end than half-way")
    assert not wrong and min(calls) > 0
    assert grown < 50 * 1024  # KiB
