"""Classifiers that are a model which chats about images, asked one question about each."""
