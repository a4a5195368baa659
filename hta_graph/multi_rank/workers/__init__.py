"""What runs the tasks of a job outside this process.

``tasks`` (what is asked, and how an answer travels), ``processes`` (processes of this machine, whose two ends are
``own_process`` and ``serving``), ``dask_cluster`` (Dask), ``waiting`` (so that an interrupt is heard), ``remedies``
(what to do when one fails). The answers are the same to the byte on each.
"""
