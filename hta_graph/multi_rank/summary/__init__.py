"""Ranks as what their job needs of them: few rows each, and the pieces of a path when they are asked for."""
