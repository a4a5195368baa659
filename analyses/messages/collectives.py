"""What ``collectives`` says: how much of the time in collectives is waiting, and for which rank."""

from __future__ import annotations

from analyses.display.sentence_format import brief_duration, brief_share, counted

TITLE = "Time in collectives: waiting for the last rank, and transfer"
NO_COLLECTIVE = "No collective is recorded on more than one rank."
WAITING, TRANSFER, CAUSED = "waiting for others", "transfer", "waiting that it causes"


def waiting(waited_ns: int, duration_ns: int) -> str:
    """Say how much of the time is waiting."""
    times = f"{brief_duration(waited_ns)} of {brief_duration(duration_ns)}, all ranks"
    return f"{brief_share(waited_ns / duration_ns)} of the time in collectives is waiting for the last rank ({times})"


def latest_rank(rank: int, share: float, times: int, collectives: int) -> str:
    """Name the rank that causes most waiting, as the end of a headline."""
    return (
        f"; rank {rank} causes {brief_share(share)} of it, arriving last in {times:,} of "
        f"{counted(collectives, 'collective')}"
    )


def summed_over(ranks: int) -> str:
    """Say over what waiting is added up."""
    return f"those of {ranks} ranks that wait"


def several_gpus(rank: int, gpus: str) -> str:
    """Say what is unknown about a rank with several GPUs."""
    return (
        f"Rank {rank} communicates on {gpus} from one process. Which of them arrives last is unknown, and a collective "
        "counts once per GPU."
    )
