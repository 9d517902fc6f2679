"""What replaces a removed pixel."""
