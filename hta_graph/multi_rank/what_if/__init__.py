"""What-if of many ranks: each finds its longest paths between rendezvous, the job decides when these are."""
