"""Labelled images of the caller's: folders, dataset objects and arrays, read and cut into uploads."""
