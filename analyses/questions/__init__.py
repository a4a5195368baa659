"""The questions: a file each, with its tables, text and figure, declared as ``ANALYSIS`` where it is asked of scopes.

None imports another; what several share lies beside this folder.
"""
