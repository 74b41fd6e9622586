"""Preservation: what an edit moved, recoloured or changed where no change was asked for, in numbers.

`scores` measures a pair, `limits` judges it, `difference_map` shows it. The field's word is
background preservation.
"""
