"""The GPU's work: which type each activity is, what copies move, queues, gaps, what hides what."""
