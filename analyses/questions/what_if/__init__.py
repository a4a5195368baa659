"""what-if: how long a window would be after changes, or which changes would gain most."""
