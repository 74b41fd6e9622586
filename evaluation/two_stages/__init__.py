"""The stress test's two stages compared with rendered truth, at several numbers of images."""
