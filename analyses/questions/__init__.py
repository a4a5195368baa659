"""The analyses, one file each, with its tables and figure; ``ANALYSIS`` declares those of ranks and steps.

No analysis imports another; shared code is outside this folder, phrases that several say are in
:mod:`analyses.display.phrases`.
"""
