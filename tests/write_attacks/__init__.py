"""Every command that writes, on a disk, from a shell and beside a neighbour that mean it ill.

Each case is a command, one of its outputs and an attack. It ends well if the output is there and whole (done), or is
refused in one line, or if the signal ended the program; in any case no input has changed, an earlier output is whole,
and nothing of ours is left over.
"""
