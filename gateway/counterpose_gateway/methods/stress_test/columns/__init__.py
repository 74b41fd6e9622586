"""What a stress test's summary needs of its items, as columns of numbers: some hundred bytes an item."""

from counterpose_gateway.methods.stress_test.columns.columns import ItemColumns
from counterpose_gateway.methods.stress_test.columns.kept import keep_parts
from counterpose_gateway.methods.stress_test.columns.reading import columns_of, read_columns

__all__ = ["ItemColumns", "columns_of", "keep_parts", "read_columns"]
