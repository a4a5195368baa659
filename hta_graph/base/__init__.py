"""What every room stands on: errors, arrays, text, files, limits."""
