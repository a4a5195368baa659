"""What memory holds and what copies move."""
