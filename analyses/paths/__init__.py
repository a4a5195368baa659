"""What is in a trace, its path, its synchronisation: as tables and documents."""
