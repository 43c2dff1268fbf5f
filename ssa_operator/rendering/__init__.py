"""From a folder of templates and one parent to documents: reading the folder is the only contact with the world."""
