"""Sixty recordings as somebody read them from their rows alone, and what the judgement says of the same."""
