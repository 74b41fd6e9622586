"""Image formats, CLIP metrics, realism and nearest images."""
