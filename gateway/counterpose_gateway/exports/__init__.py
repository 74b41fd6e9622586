"""Images with their provenance as sets that other tools read: image folders, parquet, WebDataset."""
