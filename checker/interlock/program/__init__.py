"""The program: the one thing in the middle. It knows no other room."""
