"""What the commands have in common: one sentence for a mistake, and a progress bar."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable

import tensorflow as tf
import tqdm


def run_command(command: Callable, arguments) -> int:
    """Runs `command(arguments)`.

    Returns:
        Its exit status: 2 after a user's mistake and 1 after a training that diverged or a failing
        system (a full disk, say), with one sentence on stderr; 130 after Ctrl-C; 141 where no one
        reads the output any more; otherwise what it returns, or 0.
    """
    warnings.showwarning = _show_warning
    try:
        return command(arguments) or 0
    except (ValueError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt as stop:
        print(" ".join(["Stopped.", *map(str, stop.args)]), file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (OSError, ImportError, MemoryError, tf.errors.OpError) as error:
        lines = [line.strip() for line in str(error).split("\n")]
        # TensorFlow says first where it happened, and then what.
        dull = ("", "Graph execution error:", "<stack traces unavailable>")
        said = [line for line in lines if line not in dull and not line.startswith("Detected at")]
        what = said[0] if said else ""
        print(f"error: {type(error).__name__}: {what}", file=sys.stderr)
        return 1


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    """Ours as one sentence, others as Python shows them."""
    text = f"warning: {message}\n"
    if category is not UserWarning:
        text = warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(text)


class TrainingBar:
    """A progress bar over updates on stderr, with news printed above it.

    Args:
        steps: Updates in all.
        max_minutes: Minutes of training in all, if that is the limit.
    """

    def __init__(self, steps: int, max_minutes: float | None = None):
        self._steps, self._max_minutes, self._bar = steps, max_minutes, None

    def __enter__(self) -> TrainingBar:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the bar as it is and ends its line."""
        if self._bar is not None:
            self._bar.close()

    def say(self, line: str) -> None:
        """Prints a line above the bar."""
        tqdm.tqdm.write(line, file=sys.stderr)

    def on_step(self, progress, loss: float, perplexity: float) -> None:
        """Shows an update; see `Trainer`."""
        if self._bar is None:
            self._bar = self._make(progress)
        speed = progress.tokens / max(progress.seconds, 1e-9)
        self._bar.set_postfix_str(
            f"update {progress.step}, loss {loss:.3f}, perplexity {perplexity:.2f}, "
            f"{speed:,.0f} tokens/s",
            refresh=False,
        )
        done = progress.step if self._max_minutes is None else self._minutes(progress)
        self._bar.update(done - self._bar.n)

    def _minutes(self, progress) -> float:
        # The last update may end past the limit, and tqdm forgets its total when that is far.
        return min(progress.seconds / 60, self._max_minutes)

    def _make(self, progress) -> tqdm.tqdm:
        # tqdm's own estimate is the time left; it counts minutes where these are the limit.
        if self._max_minutes is None:
            return tqdm.tqdm(
                total=self._steps, initial=progress.step - 1, unit="update", mininterval=1.0
            )
        return tqdm.tqdm(
            total=self._max_minutes,
            initial=self._minutes(progress),
            mininterval=1.0,
            bar_format="{percentage:3.0f}%|{bar}| {n:.1f}/{total:.1f} min{postfix}",
        )
