"""Plain and slow second implementations that the fast ones are held against."""
