"""Hostile texts, numbers and patterns in every command: `python -m tests.text_attacks`."""
