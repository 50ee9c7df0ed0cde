"""Same method, different plumbing, same numbers."""
