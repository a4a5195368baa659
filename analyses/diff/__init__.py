"""Two runs side by side: what was different around them, whether one is slower, and where the time went."""
