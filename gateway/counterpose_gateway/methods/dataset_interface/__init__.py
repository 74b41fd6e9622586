"""The dataset interface (ImageNet*): one token a class, learned by textual inversion."""
