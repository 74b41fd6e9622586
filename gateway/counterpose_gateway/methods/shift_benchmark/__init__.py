"""The shift benchmark (ImageNet*): every class under every shift, and what each shift costs classifiers."""
