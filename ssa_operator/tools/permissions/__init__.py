"""The permissions that the folders of a project need."""
