"""Builds prompts, runs the generator and checks what it wrote."""
