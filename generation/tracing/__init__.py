"""The trace of an answer: what the model read, what it wrote and how sure it was, token by token."""
