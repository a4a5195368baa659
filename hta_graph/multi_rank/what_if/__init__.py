"""What-if of many ranks: each tells its longest paths between rendezvous, the job decides when these are."""
