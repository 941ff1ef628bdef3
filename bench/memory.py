"""How much memory a call has at its peak beyond what was there before, its result included; pages as Linux counts them."""

import ctypes


def status(key):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise LookupError(key)


def trim():
    """Memory that was freed goes back to the system."""
    ctypes.CDLL(None).malloc_trim(0)


def peak_of(call):
    """Bytes. Exact to some pages where freed memory goes back at once: the process needs MALLOC_ENVIRONMENT."""
    trim()
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # the peak starts again at what is resident now
    before = status("VmRSS")
    result = call()
    peak = status("VmHWM")
    del result
    return max(0, peak - before)


MALLOC_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_TOP_PAD_": "0"}
