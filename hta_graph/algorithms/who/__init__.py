"""On whose behalf: operators, frames, modules and annotations around an event, their paths and threads."""
