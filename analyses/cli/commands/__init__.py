"""The commands, a declaration each beside the functions that run it; whatever is heavy is imported when one runs."""
