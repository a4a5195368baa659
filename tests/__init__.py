"""Tests, and what measures, fuzzes and attacks the package."""

import os
import signal

if hasattr(signal, "SIGHUP"):
    # Whoever runs tests under nohup lets them start programs that hear SIGHUP all the same.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No test or benchmark leaves graphs in the user's cache folder, or depends on what lies there.
os.environ["HTA_GRAPH_CACHE"] = "off"
