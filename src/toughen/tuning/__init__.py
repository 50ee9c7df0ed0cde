"""Choose method, strength and learning rate for a task on rows of its training set, and train the choice."""
