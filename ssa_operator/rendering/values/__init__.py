"""What rendered text is made of: values with their types, marks, and the limits of a render."""
