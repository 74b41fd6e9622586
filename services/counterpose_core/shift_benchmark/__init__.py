"""The mathematics of a shift benchmark and a dataset interface (ImageNet*)."""
