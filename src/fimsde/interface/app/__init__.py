"""A small local web app over the same functions as `fimsde estimate`: drop a table, see the report, download it.

Like the command line it is a face of the package, so it may use the command line's own words for tables.
"""
