"""On whose behalf: operators, frames, modules and annotations around an event, and call paths."""
