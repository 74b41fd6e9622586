"""Operations on images without a network, as arrays: `table` lists them, `application` carries them out."""
