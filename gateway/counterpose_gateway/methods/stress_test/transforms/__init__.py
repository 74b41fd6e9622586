"""Operations in a stress test: planned once an image, answered by recipes, tested without a screen."""
