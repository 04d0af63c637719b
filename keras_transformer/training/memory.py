"""Memory that is freed and taken again at every step stays with the process."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> bool:
    """Tells the C library not to hand large freed blocks back to the system.

    TensorFlow takes the tensors of a CPU step from the C library, which by default maps and unmaps
    each large one; the page faults cost a training step of a small model a quarter of its time.

    Returns:
        Whether it took effect; only glibc (Linux) knows these settings.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    settings = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 2**31 - 1, _M_TOP_PAD: 2**28}
    return all([mallopt(name, value) for name, value in settings.items()])
