"""The semantics: one module a rule family. A rule reads a program and yields findings; it decides nothing
else.
"""
