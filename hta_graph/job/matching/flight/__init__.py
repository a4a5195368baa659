"""The flight recorder as a second source of identity: its dumps, and their numbers given to what a trace shows."""
