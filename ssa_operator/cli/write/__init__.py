"""Commands for authors of templates. They need no cluster, but for `capture`."""
