"""What people touch: the command line and the page in the browser, and how both guess columns."""
