"""With `--impersonate`, no request for a child and no lookup exceeds the permissions of the parent's account."""
