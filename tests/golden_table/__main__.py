"""Print the table."""

from tests.golden_table.table import main

main()
