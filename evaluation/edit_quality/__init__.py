"""Presets of the editor compared on the same edits of development scenes, in this process."""
