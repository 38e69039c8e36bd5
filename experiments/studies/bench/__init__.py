"""The open benchmark: fixed instances, proven bounds, and a user's own method."""
