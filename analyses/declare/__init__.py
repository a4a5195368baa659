"""How an analysis is declared: its scope, tables, columns and answer."""
