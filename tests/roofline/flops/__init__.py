"""Calls of operators that are counted here and by PyTorch's own counter."""
