"""A table out of a collection: a schema's properties are its columns, documents its rows.

document ─▶ for each column: search in it ─▶ the model fills, or a phrase is chosen ─▶ cell
cell ─▶ stands in the document? ─▶ with its citation, or null with the reason
"""
