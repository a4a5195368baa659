"""What a saved graph must be before one is made of it: its header, its tables, and what they say of each other."""
