"""Summaries of documents and collections: every page is read, every statement cited.

Sections become nodes, nodes become documents' summaries, and these the collection's. What a node says is
kept under a hash of all that it was made from, so that unchanged input costs nothing again.
"""
