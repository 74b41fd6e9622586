"""Images with their provenance as sets that other tools read: image folders, parquet, WebDataset."""

from counterpose_gateway.exports.card import Card
from counterpose_gateway.exports.export import LAYOUTS, SHARD_BYTES, Export, ExportLayout, write_export
from counterpose_gateway.exports.images import Progress
from counterpose_gateway.exports.records import KEPT, Origin, Record

__all__ = [
    "KEPT",
    "LAYOUTS",
    "SHARD_BYTES",
    "Card",
    "Export",
    "ExportLayout",
    "Origin",
    "Progress",
    "Record",
    "write_export",
]
