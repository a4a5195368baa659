"""What is in a trace, its path, its synchronisation, two runs side by side: as tables and documents."""
