"""What the machine has."""

from __future__ import annotations

import os


def cores() -> int:
    """How many CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # (not on every system)
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
