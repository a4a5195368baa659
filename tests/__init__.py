"""Tests, and what measures, fuzzes and attacks the package."""

import signal

if hasattr(signal, "SIGHUP"):
    # Whoever runs tests under nohup lets them start programs that hear SIGHUP all the same.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
