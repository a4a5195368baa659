"""Graph → files of other tools, each written whole or not at all."""
