"""Messages: what they are, how they are checked, copied, measured and cut."""
