"""Break the package on purpose, one place at a time, and see which test notices: ``python -m tests.mutations``.

A defect names a function, an operator (such as `boundary`: `<` becomes `<=`) and the number of a place of that operator
in the function, so that names, texts and folders may change. `table` lists the defects, each with its tests.
"""
