"""The code blocks of the pages that people read, and how the tests check each of them."""
