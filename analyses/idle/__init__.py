"""Why the GPU has nothing to run."""
