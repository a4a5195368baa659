"""The manual's pictures, drawn by the product of tiny programs: ``python -m tests.manual_pictures`` writes them all."""
