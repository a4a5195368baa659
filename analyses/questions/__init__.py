"""The analyses, one file each, with its tables and figure; ``ANALYSIS`` declares those of ranks and steps.

No analysis imports another; shared code is outside this folder, and sentences are in :mod:`analyses.messages`.
"""
