"""Text that comes from traces or goes to people: sanitized, shortened, formatted, written as CSV or JSON.

sanitize    no character moves a cursor or hides anything
shorten     names of kernels and operators, short and still distinct
formatting  numbers, lists, tables of notebooks; prose on a terminal
csv_text    CSV in which no cell is a formula
json_text   JSON written piece by piece
"""
