"""The embedded default suite: a rendered world, its training and its loaders."""
