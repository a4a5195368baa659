"""Where files are: a place that somebody named, as a path; of a URL one that reads and writes over the network."""
