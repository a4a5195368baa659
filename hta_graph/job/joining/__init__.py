"""The ranks' graphs as one graph: columns joined, clocks applied, the edges between ranks and around what meets."""
